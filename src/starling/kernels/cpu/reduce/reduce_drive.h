#pragma once

#include <algorithm>
#include <cstdint>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/reduce/reduce.h"

namespace starling::kernels {

// Partition of a reduction of [outer, axis, inner] into rows, tiles of columns and pieces for threads: the same for
// every operation, and by the shape alone, so that results do not depend on the number of threads.

// Columns per tile of a column reduction, kept in L1.
inline constexpr std::int64_t kReduceTile = 1024;

// Operation of a reduction. `row` reduces contiguous elements, `tile` rows of columns that lie `stride` apart into
// `total` (which it fills); both to doubles that `join` combines. `param` is passed to all of them.
template <class T>
struct Folds {
  double (*row)(const T* x, std::int64_t n, double param);
  void (*tile)(const T* x, std::int64_t rows, std::int64_t stride, double* total, std::int64_t cols, double param);
  double (*join)(double a, double b);
  double (*finish)(double total, double param);
  double identity;
  double param;
};

namespace reduce_drive {

constexpr std::int64_t kGrain = 32768;
// Most pieces that the axis of few, long results is split into.
constexpr std::int64_t kMaxPieces = 64;
constexpr std::int64_t kColumnPieces = 16;

inline std::int64_t piece_size(std::int64_t axis, std::int64_t width, std::int64_t max_pieces) {
  const std::int64_t least = std::max<std::int64_t>(kGrain / width, 1);
  return std::max(least, (axis + max_pieces - 1) / max_pieces);
}

template <class T>
double fold_row_in_pieces(const Folds<T>& folds, const T* x, std::int64_t axis) {
  const std::int64_t size = piece_size(axis, 1, kMaxPieces);
  const std::int64_t pieces = (axis + size - 1) / size;
  if (pieces <= 1) return axis > 0 ? folds.row(x, axis, folds.param) : folds.identity;
  double partial[kMaxPieces];
  parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p)
      partial[p] = folds.row(x + p * size, std::min(size, axis - p * size), folds.param);
  });
  double total = partial[0];
  for (std::int64_t p = 1; p < pieces; ++p) total = folds.join(total, partial[p]);
  return total;
}

template <class T>
void fold_contiguous_rows(const Folds<T>& folds, const T* x, T* out, std::int64_t outer, std::int64_t axis) {
  const auto row = [&](std::int64_t o) {
    out[o] = static_cast<T>(folds.finish(fold_row_in_pieces(folds, x + o * axis, axis), folds.param));
  };
  // Few rows: threads share each row. Many: each thread takes whole rows (a nested region runs serially).
  if (outer < num_threads()) {
    for (std::int64_t o = 0; o < outer; ++o) row(o);
    return;
  }
  parallel_for(outer, std::max<std::int64_t>(kGrain / std::max<std::int64_t>(axis, 1), 1),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t o = begin; o < end; ++o) row(o);
               });
}

template <class T>
void fold_one_tile(const Folds<T>& folds, const T* x, T* out, std::int64_t axis, std::int64_t inner,
                   std::int64_t cols) {
  double total[kColumnPieces][kReduceTile];
  const std::int64_t size = piece_size(axis, cols, kColumnPieces);
  const std::int64_t pieces = std::max<std::int64_t>((axis + size - 1) / size, 1);
  parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t p = begin; p < end; ++p) {
      folds.tile(x + p * size * inner, std::min(size, axis - p * size), inner, total[p], cols, folds.param);
    }
  });
  for (std::int64_t p = 1; p < pieces; ++p) {
    for (std::int64_t c = 0; c < cols; ++c) total[0][c] = folds.join(total[0][c], total[p][c]);
  }
  for (std::int64_t c = 0; c < cols; ++c) out[c] = static_cast<T>(folds.finish(total[0][c], folds.param));
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
  if (shape.axis <= 0) {
    std::fill_n(out, shape.outer * shape.inner, static_cast<T>(folds.finish(folds.identity, folds.param)));
    return;
  }
  if (shape.inner == 1) return fold_contiguous_rows(folds, x, out, shape.outer, shape.axis);
  fold_columns(folds, x, out, shape);
}

}  // namespace reduce_drive
}  // namespace starling::kernels
