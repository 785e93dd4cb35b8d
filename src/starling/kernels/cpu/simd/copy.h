#pragma once

#include <cstdint>
#include <span>

namespace starling::kernels {

// Copies a strided array into another of the same shape: gathers a view into contiguous memory, scatters it back, or
// repeats a broadcast one. Rank <= 8, elements of 1, 2, 4 or 8 bytes, strides in elements. Source strides may be zero
// (broadcast) or negative; target elements must be distinct and must not overlap the source. Contiguous inner axes are
// copied whole, exchanged axes go through a blocked transposition. Uses the threads of this region. Never allocates.
// Throws on a bad rank or element size.
struct StridedCopy {
  std::span<const std::int64_t> shape;
  const void* source;
  std::span<const std::int64_t> source_strides;
  void* target;
  std::span<const std::int64_t> target_strides;
  int element_bytes;
};

void copy_strided(const StridedCopy& copy);

// target[c, r] = source[r, c] for contiguous arrays, source of [rows, cols].
void transpose(const void* source, void* target, std::int64_t rows, std::int64_t cols, int element_bytes);

}  // namespace starling::kernels
