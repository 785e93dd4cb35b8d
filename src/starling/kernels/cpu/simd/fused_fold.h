#pragma once

#include <cstdint>

namespace starling {

// What reductions inside fused chains do to one block of elements, T being float or double: short partial results in T
// that join totals in double. One thread, any alignment, never allocates.
enum class FoldOp : std::uint8_t { sum, prod, max, min };

struct FoldFns {
  // n contiguous elements into one.
  double (*run)(const void* x, std::int64_t n);
  // Row r of `rows` × `cols` contiguous elements into total[r · step].
  void (*rows)(const void* x, std::int64_t rows, std::int64_t cols, double* total, std::int64_t step);
  // Column c of them into total[c].
  void (*columns)(const void* x, std::int64_t rows, std::int64_t cols, double* total);
  double (*join)(double a, double b);
  double identity;
};
FoldFns fold_fns(FoldOp op, bool f64);  // for this machine

// Copies bytes past the caches.
void stream_bytes(const void* from, void* to, std::int64_t bytes);
void finish_streams();  // before other threads may read what was streamed

}  // namespace starling
