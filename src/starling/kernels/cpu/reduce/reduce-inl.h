// Reductions of contiguous rows and tiles of columns by an operation; used by reduce.cpp.
#if defined(STARLING_KERNELS_CPU_SIMD_REDUCE_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_KERNELS_CPU_SIMD_REDUCE_INL_H
#undef STARLING_KERNELS_CPU_SIMD_REDUCE_INL_H
#else
#define STARLING_KERNELS_CPU_SIMD_REDUCE_INL_H
#endif

#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>

#include "starling/kernels/cpu/reduce/reduce_drive.h"
#include "starling/kernels/cpu/simd/math-inl.h"
#include "starling/kernels/cpu/simd/tail-inl.h"

#ifndef STARLING_KERNELS_CPU_SIMD_REDUCE_ONCE
#define STARLING_KERNELS_CPU_SIMD_REDUCE_ONCE
namespace starling::kernels {
// Rows summed in T before they are added to the double totals.
inline constexpr std::int64_t kReduceRows = 256;
// Columns below this are read several rows at a time.
inline constexpr std::int64_t kNarrow = 64;
// Elements of a row summed in T before they are added to the double total.
inline constexpr std::int64_t kReduceRun = 4096;
}  // namespace starling::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {

struct SumOp {
  template <class T>
  static constexpr T identity() {
    return T{0};
  }
  template <class V>
  static HWY_INLINE V combine(V a, V b) {
    return hn::Add(a, b);
  }
  template <class T>
  static HWY_INLINE T combine_scalar(T a, T b) {
    return a + b;
  }
};

struct ProductOp {
  template <class T>
  static constexpr T identity() {
    return T{1};
  }
  template <class V>
  static HWY_INLINE V combine(V a, V b) {
    return hn::Mul(a, b);
  }
  template <class T>
  static HWY_INLINE T combine_scalar(T a, T b) {
    return a * b;
  }
};

struct MaxOp {
  template <class T>
  static constexpr T identity() {
    return -std::numeric_limits<T>::infinity();
  }
  template <class V>
  static HWY_INLINE V combine(V a, V b) {
    return max_nan(a, b);
  }
  template <class T>
  static HWY_INLINE T combine_scalar(T a, T b) {
    return a < b || b != b ? b : a;
  }
};

struct MinOp {
  template <class T>
  static constexpr T identity() {
    return std::numeric_limits<T>::infinity();
  }
  template <class V>
  static HWY_INLINE V combine(V a, V b) {
    return min_nan(a, b);
  }
  template <class T>
  static HWY_INLINE T combine_scalar(T a, T b) {
    return b < a || b != b ? b : a;
  }
};

// Folds the lanes in a fixed order.
template <class Op, class D>
HWY_INLINE hn::TFromD<D> fold_lanes(D d, hn::Vec<D> v) {
  using T = hn::TFromD<D>;
  alignas(64) T lanes[HWY_MAX_BYTES / sizeof(T)];
  hn::Store(v, d, lanes);
  for (std::size_t width = hn::Lanes(d) / 2; width > 0; width /= 2) {
    for (std::size_t i = 0; i < width; ++i) lanes[i] = Op::combine_scalar(lanes[i], lanes[i + width]);
  }
  return lanes[0];
}

// Reduces n contiguous elements to one, four vectors at a time to hide the latency of the additions.
template <class Op, class T>
T fold_run(const T* x, std::int64_t n) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V identity = hn::Set(d, Op::template identity<T>());
  V a0 = identity, a1 = identity, a2 = identity, a3 = identity;
  std::int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a0 = Op::combine(a0, hn::LoadU(d, x + i));
    a1 = Op::combine(a1, hn::LoadU(d, x + i + lanes));
    a2 = Op::combine(a2, hn::LoadU(d, x + i + 2 * lanes));
    a3 = Op::combine(a3, hn::LoadU(d, x + i + 3 * lanes));
  }
  for (; i + lanes <= n; i += lanes) a0 = Op::combine(a0, hn::LoadU(d, x + i));
  if (i < n) {
    const std::size_t rest = static_cast<std::size_t>(n - i);
    const V tail = hn::IfThenElse(hn::FirstN(d, rest), load_tail(d, x + i, rest), identity);
    a1 = Op::combine(a1, tail);
  }
  return fold_lanes<Op>(d, Op::combine(Op::combine(a0, a1), Op::combine(a2, a3)));
}

// Reduces four runs of n elements at once, `apart` elements from each other: several streams raise the memory
// bandwidth.
template <class Op, class T>
double fold_streams(const T* x, std::int64_t apart, std::int64_t n) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V identity = hn::Set(d, Op::template identity<T>());
  V a0 = identity, a1 = identity, a2 = identity, a3 = identity;
  for (std::int64_t i = 0; i < n; i += lanes) {
    a0 = Op::combine(a0, hn::LoadU(d, x + i));
    a1 = Op::combine(a1, hn::LoadU(d, x + i + apart));
    a2 = Op::combine(a2, hn::LoadU(d, x + i + 2 * apart));
    a3 = Op::combine(a3, hn::LoadU(d, x + i + 3 * apart));
  }
  return static_cast<double>(fold_lanes<Op>(d, Op::combine(Op::combine(a0, a1), Op::combine(a2, a3))));
}

template <class Op, class T>
double fold_long(const T* x, std::int64_t n) {
  double total = Op::template identity<double>();
  constexpr std::int64_t kStream = kReduceRun / 4;
  const std::int64_t apart = n >= 64 * kReduceRun ? n / kReduceRun * kStream : 0;  // only far beyond the caches
  for (std::int64_t i = 0; i < apart; i += kStream)
    total = Op::combine_scalar(total, fold_streams<Op>(x + i, apart, kStream));
  for (std::int64_t i = 4 * apart; i < n; i += kReduceRun) {
    total = Op::combine_scalar(total, static_cast<double>(fold_run<Op>(x + i, std::min(kReduceRun, n - i))));
  }
  return total;
}

// acc[c] = acc[c] op (x[c] op x[stride + c] op ...) for Rows rows: one load and store of acc for all of them.
template <class Op, int Rows, class T>
HWY_INLINE void fold_few_rows(const T* x, std::int64_t stride, T* acc, std::int64_t cols) {
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t c = 0;
  for (; c + lanes <= cols; c += lanes) {
    auto v = hn::LoadU(d, x + c);
    if constexpr (Rows == 4) {
      const auto high = Op::combine(hn::LoadU(d, x + 2 * stride + c), hn::LoadU(d, x + 3 * stride + c));
      v = Op::combine(Op::combine(v, hn::LoadU(d, x + stride + c)), high);
    }
    hn::StoreU(Op::combine(hn::LoadU(d, acc + c), v), d, acc + c);
  }
  if (c == cols) return;
  const std::size_t rest = static_cast<std::size_t>(cols - c);
  auto v = load_tail(d, x + c, rest);
  if constexpr (Rows == 4) {
    const auto high = Op::combine(load_tail(d, x + 2 * stride + c, rest), load_tail(d, x + 3 * stride + c, rest));
    v = Op::combine(Op::combine(v, load_tail(d, x + stride + c, rest)), high);
  }
  store_tail(d, Op::combine(load_tail(d, acc + c, rest), v), acc + c, rest);
}

template <class Op, class T>
void fold_rows(const T* x, std::int64_t rows, std::int64_t stride, T* acc, std::int64_t cols) {
  std::int64_t r = 0;
  for (; r + 4 <= rows; r += 4) fold_few_rows<Op, 4>(x + r * stride, stride, acc, cols);
  for (; r < rows; ++r) fold_few_rows<Op, 1>(x + r * stride, stride, acc, cols);
}

// Reduces any number of rows into double totals, through short partial results in T.
template <class Op, class T>
void fold_rows_long(const T* x, std::int64_t rows, std::int64_t stride, double* total, std::int64_t cols) {
  alignas(64) T acc[kReduceTile];
  for (std::int64_t r = 0; r < rows; r += kReduceRows) {
    std::fill_n(acc, cols, Op::template identity<T>());
    fold_rows<Op>(x + r * stride, std::min(kReduceRows, rows - r), stride, acc, cols);
    for (std::int64_t c = 0; c < cols; ++c) total[c] = Op::combine_scalar(total[c], static_cast<double>(acc[c]));
  }
}

// Rows of narrow columns read as one wide row: enough to fill whole vectors of every width.
inline std::int64_t rows_per_group(std::int64_t rows, std::int64_t cols) {
  if (cols >= kNarrow) return 1;
  const std::int64_t whole = 16 / std::gcd(cols, std::int64_t{16});
  const std::int64_t group = std::min(4 * kNarrow / cols, rows);
  return group < whole ? std::max<std::int64_t>(group, 1) : group / whole * whole;
}

template <class Op, class T>
void fold_tile(const T* x, std::int64_t rows, std::int64_t stride, double* total, std::int64_t cols) {
  const std::int64_t group = stride == cols ? rows_per_group(rows, cols) : 1;
  std::fill_n(total, group * cols, Op::template identity<double>());
  const std::int64_t wide = rows / group;
  fold_rows_long<Op>(x, wide, stride * group, total, cols * group);
  for (std::int64_t g = 1; g < group; ++g) {
    for (std::int64_t c = 0; c < cols; ++c) total[c] = Op::combine_scalar(total[c], total[g * cols + c]);
  }
  fold_rows_long<Op>(x + wide * group * stride, rows - wide * group, stride, total, cols);
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#endif
