// Per-target: windows of 2 x 2 with stride 2, the common case. Included once for each Highway target.
#include <cstdint>

#include "hwy/highway.h"

#if defined(STARLING_POOL_TWO_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_POOL_TWO_INL_H
#undef STARLING_POOL_TWO_INL_H
#else
#define STARLING_POOL_TWO_INL_H
#endif

HWY_BEFORE_NAMESPACE();
namespace starling {
namespace HWY_NAMESPACE::pool_simd {
namespace hn = hwy::HWY_NAMESPACE;

// The four elements of a vector of windows.
template <class D>
struct Windows {
  hn::Vec<D> at[4];

  HWY_INLINE Windows(D d, const float* top, const float* bottom) {
    hn::LoadInterleaved2(d, top, at[0], at[1]);
    hn::LoadInterleaved2(d, bottom, at[2], at[3]);
  }
};

// Where a later element takes the lead: larger, or NaN.
template <class V>
HWY_INLINE auto takes_lead(V element, V best) {
  return hn::Or(hn::Gt(element, best), hn::IsNaN(element));
}

template <class D>
HWY_INLINE void max_two(D d, const float* top, const float* bottom, float* y) {
  const Windows<D> w(d, top, bottom);
  auto best = w.at[0];
  for (int i = 1; i < 4; ++i) best = hn::IfThenElse(takes_lead(w.at[i], best), w.at[i], best);
  hn::StoreU(best, d, y);
}

template <class D>
HWY_INLINE void max_two_gradient(D d, const float* top, const float* bottom, const float* dy, float* dx_top,
                                 float* dx_bottom) {
  const Windows<D> w(d, top, bottom);
  const auto zero = hn::Zero(d);
  auto best = w.at[0];
  hn::Vec<D> share[4] = {hn::LoadU(d, dy), zero, zero, zero};
  const auto gradient = share[0];
  for (int i = 1; i < 4; ++i) {
    const auto lead = takes_lead(w.at[i], best);
    best = hn::IfThenElse(lead, w.at[i], best);
    for (int before = 0; before < i; ++before) share[before] = hn::IfThenZeroElse(lead, share[before]);
    share[i] = hn::IfThenElseZero(lead, gradient);
  }
  hn::StoreInterleaved2(share[0], share[1], d, dx_top);
  hn::StoreInterleaved2(share[2], share[3], d, dx_bottom);
}

template <class D>
HWY_INLINE void mean_two(D d, const float* top, const float* bottom, float* y) {
  const Windows<D> w(d, top, bottom);
  const auto sum = hn::Add(hn::Add(hn::Add(w.at[0], w.at[1]), w.at[2]), w.at[3]);
  hn::StoreU(hn::Mul(sum, hn::Set(d, 0.25F)), d, y);
}

template <class D>
HWY_INLINE void mean_two_gradient(D d, const float* dy, float* dx_top, float* dx_bottom) {
  const auto share = hn::Mul(hn::LoadU(d, dy), hn::Set(d, 0.25F));
  hn::StoreInterleaved2(share, share, d, dx_top);
  hn::StoreInterleaved2(share, share, d, dx_bottom);
}

// Calls step(d, column) over a row of outputs with the widest vectors that fit, then narrower ones: rows are short.
template <class Step>
HWY_INLINE void over_row(std::int64_t out_w, const Step& step) {
  const hn::ScalableTag<float> d;
  constexpr std::int64_t L = HWY_LANES(float);
  std::int64_t c = 0;
  for (; c + L <= out_w; c += L) step(d, c);
  if constexpr (L > 8) {
    const hn::CappedTag<float, 8> eight;
    for (; c + 8 <= out_w; c += 8) step(eight, c);
  }
  if constexpr (L > 4) {
    const hn::CappedTag<float, 4> four;
    for (; c + 4 <= out_w; c += 4) step(four, c);
  }
  const hn::CappedTag<float, 1> one;
  for (; c < out_w; ++c) step(one, c);
}

}  // namespace HWY_NAMESPACE::pool_simd
}  // namespace starling
HWY_AFTER_NAMESPACE();
#endif
