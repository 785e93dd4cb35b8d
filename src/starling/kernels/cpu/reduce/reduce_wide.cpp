// Reductions computed in double for every dtype: products, norms, log-sum-exp.
#include <algorithm>
#include <cmath>
#include <limits>

#include "starling/kernels/cpu/reduce/reduce_drive.h"
#include "starling/kernels/cpu/simd/fns.h"
#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/reduce/reduce_wide.cpp"
#include <hwy/foreach_target.h>

#include "starling/kernels/cpu/reduce/reduce-inl.h"
#include "starling/kernels/cpu/simd/math-inl.h"
#include "starling/kernels/cpu/simd/wide-inl.h"

#ifndef STARLING_KERNELS_CPU_SIMD_REDUCE_WIDE_ONCE
#define STARLING_KERNELS_CPU_SIMD_REDUCE_WIDE_ONCE
namespace starling::kernels {
template <class T>
struct WideFns {
  using Row = double (*)(const T*, std::int64_t, double);
  using Tile = void (*)(const T*, std::int64_t, std::int64_t, double*, std::int64_t, double);
  struct Fn {
    Row row;
    Tile tile;
  };
  Fn product, abs_sum, square_sum, power_sum, abs_max, logsumexp;
};
}  // namespace starling::kernels
#endif

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace {

struct Itself {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x) const {
    return x;
  }
};
struct Magnitude {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x) const {
    return hn::Abs(x);
  }
};
struct SquareOf {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x) const {
    return hn::Mul(x, x);
  }
};
// (|x| / most)ᵖ, which never overflows.
struct PowerOf {
  double p;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, V most) const {
    return exp_vec(d, hn::Mul(log_vec(d, hn::Div(hn::Abs(x), most)), hn::Set(d, p)));
  }
};
struct PowerOfRun {
  PowerOf power;
  double most;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x) const {
    return power(d, x, hn::Set(d, most));
  }
};

template <class Op, class F, class T>
HWY_INLINE double wide_fold(const T* x, std::int64_t n, const F& f) {
  const hn::ScalableTag<double> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto identity = hn::Set(d, Op::template identity<double>());
  auto a0 = identity, a1 = identity, a2 = identity, a3 = identity;
  std::int64_t i = 0;
  for (; i + 4 * lanes <= n; i += 4 * lanes) {
    a0 = Op::combine(a0, f(d, load_wide(d, x + i)));
    a1 = Op::combine(a1, f(d, load_wide(d, x + i + lanes)));
    a2 = Op::combine(a2, f(d, load_wide(d, x + i + 2 * lanes)));
    a3 = Op::combine(a3, f(d, load_wide(d, x + i + 3 * lanes)));
  }
  for (; i + lanes <= n; i += lanes) a0 = Op::combine(a0, f(d, load_wide(d, x + i)));
  if (i < n) {
    const auto rest = static_cast<std::size_t>(n - i);
    a1 = Op::combine(a1, hn::IfThenElse(hn::FirstN(d, rest), f(d, load_wide_tail(d, x + i, rest)), identity));
  }
  return fold_lanes<Op>(d, Op::combine(Op::combine(a0, a1), Op::combine(a2, a3)));
}

template <class Op, class F, class T>
HWY_INLINE void wide_tile(const T* x, std::int64_t rows, std::int64_t stride, double* total, std::int64_t cols,
                          const F& f) {
  const hn::ScalableTag<double> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::fill_n(total, cols, Op::template identity<double>());
  for (std::int64_t r = 0; r < rows; ++r, x += stride) {
    std::int64_t c = 0;
    for (; c + lanes <= cols; c += lanes)
      hn::StoreU(Op::combine(hn::LoadU(d, total + c), f(d, load_wide(d, x + c))), d, total + c);
    if (c == cols) continue;
    const auto rest = static_cast<std::size_t>(cols - c);
    store_tail(d, Op::combine(load_tail(d, total + c, rest), f(d, load_wide_tail(d, x + c, rest))), total + c, rest);
  }
}

template <class Op, class F, class T>
double row(const T* x, std::int64_t n, double) {
  return wide_fold<Op>(x, n, F{});
}
template <class Op, class F, class T>
void tile(const T* x, std::int64_t rows, std::int64_t stride, double* total, std::int64_t cols, double) {
  wide_tile<Op>(x, rows, stride, total, cols, F{});
}

// log Σ eˣ of a run, shifted by its largest element where that is finite.
template <class T>
double logsumexp_run(const T* x, std::int64_t n) {
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const T largest = fold_run<MaxOp>(x, n);
  const T shift = std::isfinite(largest) ? largest : T{0};
  const auto s = hn::Set(d, shift);
  auto sum = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) sum = hn::Add(sum, exp_vec(d, hn::Sub(hn::LoadU(d, x + i), s)));
  if (i < n) {
    const auto rest = static_cast<std::size_t>(n - i);
    const auto e = exp_vec(d, hn::Sub(load_tail(d, x + i, rest), s));
    sum = hn::Add(sum, hn::IfThenElseZero(hn::FirstN(d, rest), e));
  }
  return static_cast<double>(shift) + std::log(static_cast<double>(fold_lanes<SumOp>(d, sum)));
}

inline double log_add(double a, double b) {
  const double high = a < b || b != b ? b : a, low = a < b || b != b ? a : b;
  return std::isfinite(high) ? high + std::log1p(std::exp(low - high)) : high;
}

template <class T>
double logsumexp_row(const T* x, std::int64_t n, double) {
  double total = logsumexp_run(x, std::min(kReduceRun, n));
  for (std::int64_t i = kReduceRun; i < n; i += kReduceRun)
    total = log_add(total, logsumexp_run(x + i, std::min(kReduceRun, n - i)));
  return total;
}

// acc += exp(x - shift), column by column.
template <class T>
HWY_INLINE void add_exps(const T* x, const T* shift, T* acc, std::int64_t cols) {
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t c = 0;
  for (; c + lanes <= cols; c += lanes) {
    const auto e = exp_vec(d, hn::Sub(hn::LoadU(d, x + c), hn::LoadU(d, shift + c)));
    hn::StoreU(hn::Add(hn::LoadU(d, acc + c), e), d, acc + c);
  }
  if (c == cols) return;
  const auto rest = static_cast<std::size_t>(cols - c);
  const auto e = exp_vec(d, hn::Sub(load_tail(d, x + c, rest), load_tail(d, shift + c, rest)));
  store_tail(d, hn::Add(load_tail(d, acc + c, rest), e), acc + c, rest);
}

// Log-sum-exp of columns, in groups of rows that fit the cache: read twice from there and once from memory.
template <class T>
void logsumexp_tile(const T* x, std::int64_t rows, std::int64_t stride, double* total, std::int64_t cols, double) {
  constexpr std::int64_t kRows = 32;
  alignas(64) T shift[kReduceTile];
  alignas(64) T acc[kReduceTile];
  std::fill_n(total, cols, -std::numeric_limits<double>::infinity());
  for (std::int64_t r = 0; r < rows; r += kRows) {
    const std::int64_t some = std::min(kRows, rows - r);
    const T* block = x + r * stride;
    std::fill_n(shift, cols, -std::numeric_limits<T>::infinity());
    fold_rows<MaxOp>(block, some, stride, shift, cols);
    for (std::int64_t c = 0; c < cols; ++c) shift[c] = std::isfinite(shift[c]) ? shift[c] : T{0};
    std::fill_n(acc, cols, T{0});
    for (std::int64_t k = 0; k < some; ++k) add_exps(block + k * stride, shift, acc, cols);
    for (std::int64_t c = 0; c < cols; ++c)
      total[c] = log_add(total[c], static_cast<double>(shift[c]) + std::log(static_cast<double>(acc[c])));
  }
}

// log Σ |x|ᵖ, taken apart as p log(most) + log Σ (|x| / most)ᵖ run by run.
inline double divisor(double most) { return most > 0 && std::isfinite(most) ? most : 1.0; }

template <class T>
double power_row(const T* x, std::int64_t n, double p) {
  double total = -std::numeric_limits<double>::infinity();
  for (std::int64_t i = 0; i < n; i += kReduceRun) {
    const std::int64_t some = std::min(kReduceRun, n - i);
    const double most = divisor(wide_fold<MaxOp>(x + i, some, Magnitude{}));
    const double sum = wide_fold<SumOp>(x + i, some, PowerOfRun{{p}, most});
    total = log_add(total, p * std::log(most) + std::log(sum));
  }
  return total;
}

template <class T>
void power_tile(const T* x, std::int64_t rows, std::int64_t stride, double* total, std::int64_t cols, double p) {
  constexpr std::int64_t kRows = 32;
  const hn::ScalableTag<double> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  alignas(64) double most[kReduceTile];
  alignas(64) double acc[kReduceTile];
  const PowerOf power{p};
  std::fill_n(total, cols, -std::numeric_limits<double>::infinity());
  for (std::int64_t r = 0; r < rows; r += kRows) {
    const std::int64_t some = std::min(kRows, rows - r);
    wide_tile<MaxOp>(x + r * stride, some, stride, most, cols, Magnitude{});
    for (std::int64_t c = 0; c < cols; ++c) most[c] = divisor(most[c]);
    std::fill_n(acc, cols, 0.0);
    for (std::int64_t k = r; k < r + some; ++k) {
      std::int64_t c = 0;
      for (; c + lanes <= cols; c += lanes) {
        const auto v = power(d, load_wide(d, x + k * stride + c), hn::LoadU(d, most + c));
        hn::StoreU(hn::Add(hn::LoadU(d, acc + c), v), d, acc + c);
      }
      if (c == cols) continue;
      const auto rest = static_cast<std::size_t>(cols - c);
      const auto v = power(d, load_wide_tail(d, x + k * stride + c, rest), load_tail(d, most + c, rest));
      store_tail(d, hn::Add(load_tail(d, acc + c, rest), v), acc + c, rest);
    }
    for (std::int64_t c = 0; c < cols; ++c) total[c] = log_add(total[c], p * std::log(most[c]) + std::log(acc[c]));
  }
}

template <class T>
WideFns<T> fns() {
  return {
      {row<ProductOp, Itself, T>, tile<ProductOp, Itself, T>}, {row<SumOp, Magnitude, T>, tile<SumOp, Magnitude, T>},
      {row<SumOp, SquareOf, T>, tile<SumOp, SquareOf, T>},     {power_row<T>, power_tile<T>},
      {row<MaxOp, Magnitude, T>, tile<MaxOp, Magnitude, T>},   {logsumexp_row<T>, logsumexp_tile<T>}};
}
STARLING_NAME_FNS(WideFns);

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
namespace {

STARLING_EXPORT_FNS(WideFns);

constexpr double kInf = std::numeric_limits<double>::infinity();

double plus(double a, double b) { return a + b; }
double times(double a, double b) { return a * b; }
double larger(double a, double b) { return a < b || b != b ? b : a; }
double log_plus(double a, double b) {
  const double high = larger(a, b), low = a < b || b != b ? a : b;
  return std::isfinite(high) ? high + std::log1p(std::exp(low - high)) : high;
}
double itself(double total, double) { return total; }
double root(double total, double) { return std::sqrt(total); }
double any_root(double log_total, double p) { return std::exp(log_total / p); }

}  // namespace

template <class T>
void reduce_prod(const T* x, T* out, ReduceShape shape) {
  const auto fn = dispatched<T>().product;
  reduce_drive::fold<T>({fn.row, fn.tile, times, itself, 1, 0}, x, out, shape);
}

template <class T>
void reduce_logsumexp(const T* x, T* out, ReduceShape shape) {
  const auto fn = dispatched<T>().logsumexp;
  reduce_drive::fold<T>({fn.row, fn.tile, log_plus, itself, -kInf, 0}, x, out, shape);
}

template <class T>
void reduce_norm(const T* x, T* out, ReduceShape shape, double p) {
  const auto fns = dispatched<T>();
  Folds<T> folds{fns.power_sum.row, fns.power_sum.tile, log_plus, any_root, -kInf, p};
  if (p == 1) folds = {fns.abs_sum.row, fns.abs_sum.tile, plus, itself, 0, p};
  if (p == 2) folds = {fns.square_sum.row, fns.square_sum.tile, plus, root, 0, p};
  if (std::isinf(p)) folds = {fns.abs_max.row, fns.abs_max.tile, larger, itself, 0, p};
  reduce_drive::fold(folds, x, out, shape);
}

template void reduce_prod(const float*, float*, ReduceShape);
template void reduce_prod(const double*, double*, ReduceShape);
template void reduce_logsumexp(const float*, float*, ReduceShape);
template void reduce_logsumexp(const double*, double*, ReduceShape);
template void reduce_norm(const float*, float*, ReduceShape, double);
template void reduce_norm(const double*, double*, ReduceShape, double);

}  // namespace starling::kernels
#endif
