// sin, cos, tan and the inverse functions on vectors of float or double. Arguments are reduced by multiples of pi / 2
// in four exact steps; larger ones (and infinity) go to the C library lane by lane.
#if defined(STARLING_KERNELS_CPU_SIMD_TRIG_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_KERNELS_CPU_SIMD_TRIG_INL_H
#undef STARLING_KERNELS_CPU_SIMD_TRIG_INL_H
#else
#define STARLING_KERNELS_CPU_SIMD_TRIG_INL_H
#endif

#include <hwy/highway.h>

#include <cmath>

#include "hwy/contrib/math/math-inl.h"
#include "starling/kernels/cpu/simd/lanes-inl.h"
#include "starling/kernels/cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// pi / 2 in four parts; products of the first three with a quadrant below kMost are exact.
template <class T>
struct HalfPi;

template <>
struct HalfPi<float> {
  static constexpr float kParts[4] = {1.5703125f, 4.837512969970703125e-4f, 7.54953362047672271728515625e-8f,
                                      2.56334406825708960298e-12f};
  static constexpr float kMost = 8192.0f;
  static constexpr int kSinTerms = 4;
  static constexpr int kCosTerms = 5;
};

template <>
struct HalfPi<double> {
  static constexpr double kParts[4] = {1.57079632673412561417e+00, 6.07710050630396597660e-11,
                                       2.02226624871116645580e-21, 8.47842766036889956997e-32};
  static constexpr double kMost = 524288.0;
  static constexpr int kSinTerms = 8;
  static constexpr int kCosTerms = 8;
};

constexpr double inverse_factorial(int k) { return k <= 1 ? 1.0 : inverse_factorial(k - 1) / k; }

// Terms from z^Term on of sum (-z)^n / (2n + Odd)!, which is sin(r) / r (Odd = 1) or cos(r) (Odd = 0) with z = r^2.
template <int Term, int Terms, int Odd, class D, class V>
HWY_INLINE V circle_series(D d, V z) {
  using T = hn::TFromD<D>;
  constexpr double kSign = Term % 2 == 0 ? 1.0 : -1.0;
  const V own = hn::Set(d, static_cast<T>(kSign * inverse_factorial(2 * Term + Odd)));
  if constexpr (Term == Terms) {
    return own;
  } else {
    return hn::MulAdd(circle_series<Term + 1, Terms, Odd>(d, z), z, own);
  }
}

// |x| = q pi/2 + r with |r| <= pi/4: sin and cos of r, and q.
template <class D, class V>
struct Quadrant {
  hn::Vec<hn::RebindToSigned<D>> q;
  V sin_r;
  V cos_r;
};

template <class D, class V>
HWY_INLINE Quadrant<D, V> quadrant(D d, V magnitude) {
  using T = hn::TFromD<D>;
  using P = HalfPi<T>;
  const hn::RebindToSigned<D> di;
  const V k = hn::Round(hn::Mul(magnitude, hn::Set(d, static_cast<T>(0.63661977236758134308))));
  V r = magnitude;
  for (const T part : P::kParts) r = hn::NegMulAdd(k, hn::Set(d, part), r);
  const V z = hn::Mul(r, r);
  const V s = hn::MulAdd(hn::Mul(r, z), circle_series<1, P::kSinTerms, 1>(d, z), r);
  const V half_z = hn::Mul(z, hn::Set(d, static_cast<T>(0.5)));
  const V c = hn::Sub(hn::Set(d, 1), hn::NegMulAdd(hn::Mul(z, z), circle_series<2, P::kCosTerms, 0>(d, z), half_z));
  return {hn::ConvertTo(di, k), s, c};
}

// Mask of the lanes whose quadrant has any of `bits`.
template <class D, class VI>
HWY_INLINE hn::Mask<D> quadrant_has(D d, VI q, int bits) {
  const hn::RebindToSigned<D> di;
  using TI = hn::TFromD<decltype(di)>;
  return hn::RebindMask(d, hn::Ne(hn::And(q, hn::Set(di, static_cast<TI>(bits))), hn::Zero(di)));
}

template <class D, class V>
HWY_INLINE V flip_sign(D d, V x, hn::Mask<D> where) {
  return hn::Xor(x, hn::IfThenElseZero(where, hn::SignBit(d)));
}

// True if some lane is too large for the reduction; infinities are, NaN is not and propagates.
template <class D, class V>
HWY_INLINE bool beyond_reduction(D d, V magnitude) {
  return !hn::AllFalse(d, hn::Gt(magnitude, hn::Set(d, HalfPi<hn::TFromD<D>>::kMost)));
}

template <class D, class V>
HWY_INLINE V sin_vec(D d, V x) {
  const V magnitude = hn::Abs(x);
  if (HWY_UNLIKELY(beyond_reduction(d, magnitude))) return each_lane<ScalarSin>(d, x);
  const auto at = quadrant(d, magnitude);
  const V y = hn::IfThenElse(quadrant_has(d, at.q, 1), at.cos_r, at.sin_r);
  return hn::Xor(flip_sign(d, y, quadrant_has(d, at.q, 2)), hn::And(x, hn::SignBit(d)));
}

template <class D, class V>
HWY_INLINE V cos_vec(D d, V x) {
  const V magnitude = hn::Abs(x);
  if (HWY_UNLIKELY(beyond_reduction(d, magnitude))) return each_lane<ScalarCos>(d, x);
  const auto at = quadrant(d, magnitude);
  const hn::RebindToSigned<D> di;
  const V y = hn::IfThenElse(quadrant_has(d, at.q, 1), at.sin_r, at.cos_r);
  return flip_sign(d, y, quadrant_has(d, hn::Add(at.q, hn::Set(di, 1)), 2));
}

template <class D, class V>
HWY_INLINE V tan_vec(D d, V x) {
  const V magnitude = hn::Abs(x);
  if (HWY_UNLIKELY(beyond_reduction(d, magnitude))) return each_lane<ScalarTan>(d, x);
  const auto at = quadrant(d, magnitude);
  const auto odd = quadrant_has(d, at.q, 1);
  const V y = hn::Div(hn::IfThenElse(odd, at.cos_r, at.sin_r), hn::IfThenElse(odd, at.sin_r, at.cos_r));
  return hn::Xor(flip_sign(d, y, odd), hn::And(x, hn::SignBit(d)));
}

// Angle of the point (x, y), from the quotient of the smaller coordinate by the larger.
template <class D, class V>
HWY_INLINE V atan2_vec(D d, V y, V x) {
  using T = hn::TFromD<D>;
  const V ay = hn::Abs(y), ax = hn::Abs(x), zero = hn::Zero(d);
  const auto steep = hn::Gt(ay, ax);
  const V low = hn::IfThenElse(steep, ax, ay), high = hn::IfThenElse(steep, ay, ax);
  // 0 / 0 is an angle of 0 and inf / inf one of pi / 4.
  V ratio = hn::IfThenElse(hn::Eq(high, zero), zero, hn::Div(low, high));
  ratio = hn::IfThenElse(hn::Eq(low, hn::Inf(d)), hn::Set(d, 1), ratio);
  V angle = hn::Atan(d, ratio);
  angle = hn::IfThenElse(steep, hn::Sub(hn::Set(d, static_cast<T>(1.57079632679489661923)), angle), angle);
  const auto left = hn::RebindMask(d, hn::MaskFromVec(hn::BroadcastSignBit(hn::BitCast(hn::RebindToSigned<D>(), x))));
  angle = hn::IfThenElse(left, hn::Sub(hn::Set(d, static_cast<T>(3.14159265358979323846)), angle), angle);
  const V signed_angle = hn::CopySign(angle, y);
  return hn::IfThenElse(hn::Or(hn::IsNaN(x), hn::IsNaN(y)), hn::NaN(d), signed_angle);
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#endif
