#include "starling/kernels/cpu/fused/fused_fold.h"

#include <algorithm>
#include <cstring>

#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/fused/fused_fold.cpp"
#include <hwy/cache_control.h>
#include <hwy/foreach_target.h>

#include "starling/kernels/cpu/reduce/reduce-inl.h"
#include "starling/kernels/cpu/simd/wide-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace {

// Product in double: a partial product of floats could overflow where the whole does not.
template <class T>
double wide_product(const T* x, std::int64_t n) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto a = hn::Set(d, 1.0), b = a;
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    a = hn::Mul(a, load_wide(d, x + i));
    b = hn::Mul(b, load_wide(d, x + i + lanes));
  }
  double total = fold_lanes<ProductOp>(d, hn::Mul(a, b));
  for (; i < n; ++i) total *= static_cast<double>(x[i]);
  return total;
}

template <class Op, class T>
double fold_of(const T* x, std::int64_t n) {
  if constexpr (std::is_same_v<Op, ProductOp>)
    return wide_product(x, n);
  else
    return static_cast<double>(fold_run<Op>(x, n));
}

template <class Op, class T>
double run(const void* x, std::int64_t n) {
  return fold_of<Op>(static_cast<const T*>(x), n);
}

template <class Op, class T>
void rows(const void* from, std::int64_t count, std::int64_t cols, double* total, std::int64_t step) {
  const T* x = static_cast<const T*>(from);
  for (std::int64_t r = 0; r < count; ++r)
    total[r * step] = Op::combine_scalar(total[r * step], fold_of<Op>(x + r * cols, cols));
}

// Joins one row into the totals.
template <class Op, class T>
HWY_INLINE void column_row(const T* x, std::int64_t cols, double* total) {
  const hn::ScalableTag<double> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t c = 0;
  for (; c + lanes <= cols; c += lanes)
    hn::StoreU(Op::combine(hn::LoadU(d, total + c), load_wide(d, x + c)), d, total + c);
  for (; c < cols; ++c) total[c] = Op::combine_scalar(total[c], static_cast<double>(x[c]));
}

template <class Op, class T>
void columns(const void* from, std::int64_t count, std::int64_t cols, double* total) {
  const T* x = static_cast<const T*>(from);
  constexpr std::int64_t kMost = 512;  // elements reduced in T first
  if (std::is_same_v<Op, ProductOp> || count < 4 || cols > kMost) {
    for (std::int64_t r = 0; r < count; ++r) column_row<Op>(x + r * cols, cols, total);
    return;
  }
  alignas(64) T acc[kMost];
  std::copy_n(x, cols, acc);
  fold_rows<Op>(x + cols, count - 1, cols, acc, cols);
  column_row<Op>(acc, cols, total);
}

template <class Op>
double join(double a, double b) {
  return Op::combine_scalar(a, b);
}

template <class Op, class T>
FoldFns fns_of() {
  return {run<Op, T>, rows<Op, T>, columns<Op, T>, join<Op>, Op::template identity<double>()};
}

template <class T>
FoldFns fns_as(FoldOp op) {
  switch (op) {
    case FoldOp::sum: return fns_of<SumOp, T>();
    case FoldOp::prod: return fns_of<ProductOp, T>();
    case FoldOp::max: return fns_of<MaxOp, T>();
    default: return fns_of<MinOp, T>();
  }
}

FoldFns fns(FoldOp op, bool f64) { return f64 ? fns_as<double>(op) : fns_as<float>(op); }

void stream(const void* from, void* to, std::int64_t bytes) {
  const hn::ScalableTag<std::uint8_t> d;
  const auto width = static_cast<std::int64_t>(hn::Lanes(d));
  const auto* x = static_cast<const std::uint8_t*>(from);
  auto* y = static_cast<std::uint8_t*>(to);
  const auto off = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(y) % static_cast<std::uintptr_t>(width));
  std::int64_t i = std::min((width - off) % width, bytes);
  std::memcpy(y, x, static_cast<std::size_t>(i));
  for (; i + width <= bytes; i += width) hn::Stream(hn::LoadU(d, x + i), d, y + i);
  std::memcpy(y + i, x + i, static_cast<std::size_t>(bytes - i));
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {

HWY_EXPORT(fns);
HWY_EXPORT(stream);

FoldFns fold_fns(FoldOp op, bool f64) { return HWY_DYNAMIC_DISPATCH(fns)(op, f64); }
void stream_bytes(const void* from, void* to, std::int64_t bytes) { HWY_DYNAMIC_DISPATCH(stream)(from, to, bytes); }
void finish_streams() { hwy::FlushStream(); }

}  // namespace starling::kernels
#endif
