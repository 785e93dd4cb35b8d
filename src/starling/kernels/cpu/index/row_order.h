#pragma once

#include <hwy/cache_control.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "starling/kernels/cpu/simd/block.h"
#include "starling/tensor/dtype.h"
#include "starling/tensor/shape.h"
#include "starling/tensor/shape_parts.h"

namespace starling::kernels {

// Helpers shared by kernels on tables of rows.

// Throws "[who] expected …, got … at position …" on the first index outside [0, rows).
void check_indices(const std::int64_t* indices, std::int64_t n, std::int64_t rows, const char* who);

// Prefetch distance in entries: rows are scattered, and fetching ahead hides memory latency.
inline constexpr std::int64_t kAhead = 6;
template <class T>
void prefetch_row(const T* row, std::int64_t width) {
  constexpr std::int64_t kLine = 64 / sizeof(T), kMost = 16 * kLine;
  for (std::int64_t j = 0; j < std::min(width, kMost); j += kLine) hwy::Prefetch(row + j);
}

// to += from, for one row.
template <class T>
class RowAdd {
 public:
  explicit RowAdd(std::int64_t width);
  void operator()(T* to, const T* from) const {
    if (width_ < kVector) {
      for (std::int64_t j = 0; j < width_; ++j) to[j] += from[j];
      return;
    }
    const void* pair[2] = {to, from};
    add_(pair, 0, to, width_, nullptr);
  }

 private:
  static constexpr std::int64_t kVector = 8;
  std::int64_t width_;
  BlockFn add_;
};

struct RowEntry {
  std::int64_t row;
  std::int64_t position;
};
// Sorts entries by row, stably. `a` and `b` hold n each; the result is in one of them.
RowEntry* sort_by_row(const std::int64_t* rows, std::int64_t n, RowEntry* a, RowEntry* b);
constexpr std::size_t sort_bytes(std::int64_t n) { return 2 * static_cast<std::size_t>(n) * sizeof(RowEntry); }

}  // namespace starling::kernels
