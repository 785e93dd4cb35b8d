#pragma once

#include <cstdint>

namespace starling::kernels {

// Reductions inside fused chains, on one block of elements of T, float or double: short partial results in T that are
// joined into totals in double. One thread, any alignment, never allocates.
enum class FoldOp : std::uint8_t { sum, prod, max, min };

struct FoldFns {
  // Reduces n contiguous elements to one.
  double (*run)(const void* x, std::int64_t n);
  // Joins row r of `rows` × `cols` contiguous elements into total[r · step].
  void (*rows)(const void* x, std::int64_t rows, std::int64_t cols, double* total, std::int64_t step);
  // Joins column c of `rows` × `cols` contiguous elements into total[c].
  void (*columns)(const void* x, std::int64_t rows, std::int64_t cols, double* total);
  double (*join)(double a, double b);
  double identity;
};
FoldFns fold_fns(FoldOp op, bool f64);  // for this machine's instruction set

// Non-temporal copy of bytes, past the caches.
void stream_bytes(const void* from, void* to, std::int64_t bytes);
void finish_streams();  // fence: required before other threads read streamed data

}  // namespace starling::kernels
