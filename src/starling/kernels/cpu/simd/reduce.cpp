#include "starling/kernels/cpu/simd/reduce.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/simd/reduce.cpp"
#include <hwy/foreach_target.h>

#include "starling/kernels/cpu/simd/reduce-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE {
namespace {

double sum_f32(const float* x, std::int64_t n) { return fold_long<SumOp>(x, n); }
double sum_f64(const double* x, std::int64_t n) { return fold_long<SumOp>(x, n); }
double max_f32(const float* x, std::int64_t n) { return fold_long<MaxOp>(x, n); }
double max_f64(const double* x, std::int64_t n) { return fold_long<MaxOp>(x, n); }
void sum_tile_f32(const float* x, std::int64_t rows, std::int64_t stride, double* total, std::int64_t cols) {
  fold_tile<SumOp>(x, rows, stride, total, cols);
}
void sum_tile_f64(const double* x, std::int64_t rows, std::int64_t stride, double* total, std::int64_t cols) {
  fold_tile<SumOp>(x, rows, stride, total, cols);
}
void max_tile_f32(const float* x, std::int64_t rows, std::int64_t stride, double* total, std::int64_t cols) {
  fold_tile<MaxOp>(x, rows, stride, total, cols);
}
void max_tile_f64(const double* x, std::int64_t rows, std::int64_t stride, double* total, std::int64_t cols) {
  fold_tile<MaxOp>(x, rows, stride, total, cols);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling {
namespace {

HWY_EXPORT(sum_f32);
HWY_EXPORT(sum_f64);
HWY_EXPORT(max_f32);
HWY_EXPORT(max_f64);
HWY_EXPORT(sum_tile_f32);
HWY_EXPORT(sum_tile_f64);
HWY_EXPORT(max_tile_f32);
HWY_EXPORT(max_tile_f64);

constexpr std::int64_t kGrain = 32768;
// The axis of few, long results is cut into at most this many pieces; the cut never depends on the threads.
constexpr std::int64_t kMaxPieces = 64;

// A reduction as the two functions that differ between sum and max.
template <class T>
struct Folds {
  double (*row)(const T* x, std::int64_t n);
  void (*tile)(const T* x, std::int64_t rows, std::int64_t stride, double* total, std::int64_t cols);
  double (*join)(double a, double b);
  double identity;
  double scale;
};

std::int64_t piece_size(std::int64_t axis, std::int64_t width, std::int64_t max_pieces) {
  const std::int64_t least = std::max<std::int64_t>(kGrain / width, 1);
  return std::max(least, (axis + max_pieces - 1) / max_pieces);
}

template <class T>
double fold_row_in_pieces(const Folds<T>& folds, const T* x, std::int64_t axis) {
  const std::int64_t size = piece_size(axis, 1, kMaxPieces);
  const std::int64_t pieces = (axis + size - 1) / size;
  if (pieces <= 1) return folds.row(x, axis);
  double partial[kMaxPieces];
  parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) partial[p] = folds.row(x + p * size, std::min(size, axis - p * size));
  });
  double total = folds.identity;
  for (std::int64_t p = 0; p < pieces; ++p) total = folds.join(total, partial[p]);
  return total;
}

template <class T>
void fold_contiguous_rows(const Folds<T>& folds, const T* x, T* out, std::int64_t outer, std::int64_t axis) {
  const auto row = [&](std::int64_t o) {
    out[o] = static_cast<T>(folds.scale * fold_row_in_pieces(folds, x + o * axis, axis));
  };
  // Few rows: threads share each row. Many: each thread takes rows whole (a nested region runs serially).
  if (outer < num_threads()) {
    for (std::int64_t o = 0; o < outer; ++o) row(o);
    return;
  }
  parallel_for(outer, std::max<std::int64_t>(kGrain / std::max<std::int64_t>(axis, 1), 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t o = begin; o < end; ++o) row(o);
               });
}

constexpr std::int64_t kColumnPieces = 16;

template <class T>
void fold_one_tile(const Folds<T>& folds, const T* x, T* out, std::int64_t axis, std::int64_t inner,
                   std::int64_t cols) {
  double total[kColumnPieces][kReduceTile];
  const std::int64_t size = piece_size(axis, cols, kColumnPieces);
  const std::int64_t pieces = std::max<std::int64_t>((axis + size - 1) / size, 1);
  parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      folds.tile(x + p * size * inner, std::min(size, axis - p * size), inner, total[p], cols);
    }
  });
  for (std::int64_t p = 1; p < pieces; ++p) {
    for (std::int64_t c = 0; c < cols; ++c) total[0][c] = folds.join(total[0][c], total[p][c]);
  }
  for (std::int64_t c = 0; c < cols; ++c) out[c] = static_cast<T>(folds.scale * total[0][c]);
}

template <class T>
void fold_columns(const Folds<T>& folds, const T* x, T* out, ReduceShape shape) {
  const std::int64_t across = (shape.inner + kReduceTile - 1) / kReduceTile;
  const auto tile = [&](std::int64_t t) {
    const std::int64_t o = t / across, c = t % across * kReduceTile;
    fold_one_tile(folds, x + o * shape.axis * shape.inner + c, out + o * shape.inner + c, shape.axis, shape.inner,
                  std::min(kReduceTile, shape.inner - c));
  };
  const std::int64_t tiles = shape.outer * across;
  if (tiles < num_threads()) {
    for (std::int64_t t = 0; t < tiles; ++t) tile(t);
    return;
  }
  const std::int64_t work = std::max<std::int64_t>(shape.axis * std::min(shape.inner, kReduceTile), 1);
  parallel_for(tiles, std::max<std::int64_t>(kGrain / work, 1), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) tile(t);
  });
}

template <class T>
void fold(const Folds<T>& folds, const T* x, T* out, ReduceShape shape) {
  if (shape.outer <= 0 || shape.inner <= 0) return;
  if (shape.inner == 1) return fold_contiguous_rows(folds, x, out, shape.outer, shape.axis);
  fold_columns(folds, x, out, shape);
}

double join_sum(double a, double b) { return a + b; }
double join_max(double a, double b) { return a < b || b != b ? b : a; }

}  // namespace

template <class T>
void reduce_sum(const T* x, T* out, ReduceShape shape, double scale) {
  if constexpr (std::is_same_v<T, float>) {
    fold<T>({HWY_DYNAMIC_DISPATCH(sum_f32), HWY_DYNAMIC_DISPATCH(sum_tile_f32), join_sum, 0, scale}, x, out, shape);
  } else {
    fold<T>({HWY_DYNAMIC_DISPATCH(sum_f64), HWY_DYNAMIC_DISPATCH(sum_tile_f64), join_sum, 0, scale}, x, out, shape);
  }
}

template <class T>
void reduce_max(const T* x, T* out, ReduceShape shape) {
  constexpr double kLowest = -std::numeric_limits<double>::infinity();
  if constexpr (std::is_same_v<T, float>) {
    fold<T>({HWY_DYNAMIC_DISPATCH(max_f32), HWY_DYNAMIC_DISPATCH(max_tile_f32), join_max, kLowest, 1}, x, out, shape);
  } else {
    fold<T>({HWY_DYNAMIC_DISPATCH(max_f64), HWY_DYNAMIC_DISPATCH(max_tile_f64), join_max, kLowest, 1}, x, out, shape);
  }
}

template void reduce_sum(const float*, float*, ReduceShape, double);
template void reduce_sum(const double*, double*, ReduceShape, double);
template void reduce_max(const float*, float*, ReduceShape);
template void reduce_max(const double*, double*, ReduceShape);

}  // namespace starling
#endif
