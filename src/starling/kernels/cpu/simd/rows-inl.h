// Operations of softmax and its relatives on one contiguous row.
#if defined(STARLING_KERNELS_CPU_SIMD_ROWS_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_KERNELS_CPU_SIMD_ROWS_INL_H
#undef STARLING_KERNELS_CPU_SIMD_ROWS_INL_H
#else
#define STARLING_KERNELS_CPU_SIMD_ROWS_INL_H
#endif

#include <hwy/highway.h>

#include <cstdint>
#include <limits>

#include "starling/kernels/cpu/simd/math-inl.h"
#include "starling/kernels/cpu/simd/tail-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
HWY_INLINE T row_max(const T* x, std::int64_t n) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V lowest = hn::Set(d, -std::numeric_limits<T>::infinity());
  V a = lowest, b = lowest;
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    a = hn::Max(a, hn::LoadU(d, x + i));
    b = hn::Max(b, hn::LoadU(d, x + i + lanes));
  }
  for (; i + lanes <= n; i += lanes) a = hn::Max(a, hn::LoadU(d, x + i));
  if (i < n) {
    const std::size_t rest = static_cast<std::size_t>(n - i);
    b = hn::Max(b, hn::IfThenElse(hn::FirstN(d, rest), load_tail(d, x + i, rest), lowest));
  }
  return hn::GetLane(hn::MaxOfLanes(d, hn::Max(a, b)));
}

// Sum of exp(x - shift); with y, the terms too. y may be x.
template <class T>
HWY_INLINE T row_exp_sum(const T* x, T* y, T shift, std::int64_t n) {
  const hn::ScalableTag<T> d;
  using V = hn::Vec<decltype(d)>;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const V s = hn::Set(d, shift);
  V sum = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    const V e = exp_nonpositive(d, hn::Sub(hn::LoadU(d, x + i), s));
    if (y != nullptr) hn::StoreU(e, d, y + i);
    sum = hn::Add(sum, e);
  }
  if (i < n) {
    const std::size_t rest = static_cast<std::size_t>(n - i);
    const V e = exp_nonpositive(d, hn::Sub(load_tail(d, x + i, rest), s));
    if (y != nullptr) store_tail(d, e, y + i, rest);
    sum = hn::Add(sum, hn::IfThenElseZero(hn::FirstN(d, rest), e));
  }
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

// y[i] = f(d, vectors of a[i] and b[i]); b may be a again. F is a struct holding its constants.
template <class T, class F>
HWY_INLINE void row_map(const T* a, const T* b, T* y, std::int64_t n, const F& f) {
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= n; i += lanes) hn::StoreU(f(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, y + i);
  if (i == n) return;
  const std::size_t rest = static_cast<std::size_t>(n - i);
  store_tail(d, f(d, load_tail(d, a + i, rest), load_tail(d, b + i, rest)), y + i, rest);
}

// Sum of f(d, a[i], b[i]); f of zeros must be zero.
template <class T, class F>
HWY_INLINE T row_sum(const T* a, const T* b, std::int64_t n, const F& f) {
  const hn::ScalableTag<T> d;
  const std::int64_t lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto s0 = hn::Zero(d), s1 = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    s0 = hn::Add(s0, f(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i)));
    s1 = hn::Add(s1, f(d, hn::LoadU(d, a + i + lanes), hn::LoadU(d, b + i + lanes)));
  }
  for (; i + lanes <= n; i += lanes) s0 = hn::Add(s0, f(d, hn::LoadU(d, a + i), hn::LoadU(d, b + i)));
  if (i < n) {
    const std::size_t rest = static_cast<std::size_t>(n - i);
    s1 = hn::Add(s1, f(d, load_tail(d, a + i, rest), load_tail(d, b + i, rest)));
  }
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(s0, s1)));
}

template <class T>
struct ScaleRow {
  T scale;
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V) const {
    return hn::Mul(a, hn::Set(d, scale));
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#endif
