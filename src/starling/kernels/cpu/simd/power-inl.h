// pow and the remainders of division on vectors of float or double.
#if defined(STARLING_KERNELS_CPU_SIMD_POWER_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_KERNELS_CPU_SIMD_POWER_INL_H
#undef STARLING_KERNELS_CPU_SIMD_POWER_INL_H
#else
#define STARLING_KERNELS_CPU_SIMD_POWER_INL_H
#endif

#include <hwy/highway.h>

#include "starling/kernels/cpu/simd/lanes-inl.h"
#include "starling/kernels/cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Low part of the product as a sum high + low: its rounding error where FMA is native, else zero.
template <class V>
HWY_INLINE V product_rest([[maybe_unused]] V a, [[maybe_unused]] V b, V high) {
#if HWY_NATIVE_FMA
  return hn::MulSub(a, b, high);
#else
  return hn::Sub(high, high);
#endif
}

// exp(b log a) for a > 0, the logarithm and the product each as a sum of two numbers: an exponent of hundreds would
// magnify their roundings otherwise.
template <class D, class V>
HWY_INLINE V pow_positive(D d, V a, V b) {
  using F = FloatFormat<hn::TFromD<D>>;
  const auto parts = log_parts(d, a);
  const V whole = hn::Mul(parts.e, hn::Set(d, F::kLn2Hi));  // exact
  const V sum = hn::Add(whole, parts.f);
  const V lost = hn::Add(hn::Sub(whole, hn::Sub(sum, hn::Sub(sum, whole))), hn::Sub(parts.f, hn::Sub(sum, whole)));
  const V rest = hn::Add(hn::MulAdd(parts.e, hn::Set(d, F::kLn2Lo), parts.tail), lost);
  const V log_high = hn::Add(sum, rest);
  const V log_low = hn::Add(hn::Sub(sum, log_high), rest);
  const V high = hn::Mul(b, log_high);
  const V low = hn::MulAdd(b, log_low, product_rest(b, log_high, high));
  const V reached = hn::Max(hn::Min(high, hn::Set(d, F::kExpMax)), hn::Set(d, F::kExpMin));
  const V small = hn::IfThenElseZero(hn::Eq(high, reached), low);  // `low` may be NaN elsewhere
  // exp(r + small) - 1, scaled in two factors: powers next to overflow stay finite.
  const auto parts_of_y = exp_parts(d, reached);
  const V one = hn::Set(d, 1);
  const V p = hn::Add(hn::MulAdd(hn::Add(parts_of_y.expm1_r, one), small, parts_of_y.expm1_r), one);
  return scale_exp2(d, p, parts_of_y.exponent);
}

// pow with the C library's results at every limit.
template <class D, class V>
HWY_INLINE V pow_vec(D d, V a, V b) {
  using T = hn::TFromD<D>;
  const V zero = hn::Zero(d), one = hn::Set(d, 1), infinity = hn::Inf(d);
  const V magnitude = hn::Abs(a);
  V y = pow_positive(d, magnitude, b);
  // Bases 0 and infinity: the sign of the exponent decides.
  const auto grows = hn::Gt(b, zero);
  y = hn::IfThenElse(hn::Eq(magnitude, zero), hn::IfThenElse(grows, zero, infinity), y);
  y = hn::IfThenElse(hn::Eq(magnitude, infinity), hn::IfThenElse(grows, infinity, zero), y);
  const auto endless = hn::Eq(hn::Abs(b), infinity);
  const auto to_infinity = hn::Or(hn::And(grows, hn::Gt(magnitude, one)), hn::AndNot(grows, hn::Lt(magnitude, one)));
  y = hn::IfThenElse(endless, hn::IfThenElse(to_infinity, infinity, zero), y);
  const V half = hn::Mul(b, hn::Set(d, static_cast<T>(0.5)));
  const auto integral = hn::Eq(hn::Floor(b), b);
  const auto odd = hn::AndNot(hn::Eq(hn::Floor(half), half), integral);
  const auto negative = hn::Lt(a, zero);
  y = hn::IfThenElse(odd, hn::CopySign(y, a), y);
  const auto no_root = hn::And(hn::AndNot(integral, negative), hn::Lt(magnitude, infinity));
  y = hn::IfThenElse(hn::Or(no_root, hn::Or(hn::IsNaN(a), hn::IsNaN(b))), hn::NaN(d), y);
  const auto unit = hn::Or(hn::Eq(a, one), hn::And(hn::Eq(magnitude, one), endless));
  return hn::IfThenElse(hn::Or(unit, hn::Eq(b, zero)), one, y);
}

// a - trunc(a / b) b. Exact where FMA is native and the quotient is small: it is then one too large at most, which
// shows in the remainder. Otherwise uses the C library.
template <class D, class V>
HWY_INLINE V fmod_vec(D d, V a, V b) {
#if HWY_NATIVE_FMA
  using T = hn::TFromD<D>;
  constexpr double kMost = sizeof(T) == 4 ? 4.0e6 : 1.0e15;
  const V quotient = hn::Div(a, b), size = hn::Abs(b);
  const auto easy = hn::And(hn::Lt(hn::Abs(quotient), hn::Set(d, static_cast<T>(kMost))),
                            hn::And(hn::Gt(size, hn::Set(d, static_cast<T>(1e-20))), hn::Lt(size, hn::Inf(d))));
  if (HWY_UNLIKELY(!hn::AllTrue(d, easy))) return each_lane<ScalarFmod>(d, a, b);
  const V r = hn::NegMulAdd(hn::Trunc(hn::Abs(quotient)), size, hn::Abs(a));
  return hn::CopySign(hn::IfThenElse(hn::Lt(r, hn::Zero(d)), hn::Add(r, size), r), a);
#else
  return each_lane<ScalarFmod>(d, a, b);
#endif
}

// Remainder with the divisor's sign, zeros included.
template <class D, class V>
HWY_INLINE V mod_vec(D d, V a, V b) {
  const V zero = hn::Zero(d);
  const V r = fmod_vec(d, a, b);
  const auto wrong = hn::And(hn::Ne(r, zero), hn::Xor(hn::Lt(r, zero), hn::Lt(b, zero)));
  return hn::IfThenElse(hn::Eq(r, zero), hn::CopySign(zero, b), hn::IfThenElse(wrong, hn::Add(r, b), r));
}

// Floor of the exact quotient: (a - fmod) / b is within rounding of an integer, that of the truncated one. Zeros have
// the sign of a / b.
template <class D, class V>
HWY_INLINE V floor_div_vec(D d, V a, V b) {
  const V zero = hn::Zero(d);
  const V r = fmod_vec(d, a, b);
  const V whole = hn::Round(hn::Div(hn::Sub(a, r), b));
  const auto wrong = hn::And(hn::Ne(r, zero), hn::Xor(hn::Lt(r, zero), hn::Lt(b, zero)));
  const V floor = hn::IfThenElse(wrong, hn::Sub(whole, hn::Set(d, 1)), whole);
  const V y = hn::IfThenElse(hn::Eq(floor, zero), hn::CopySign(zero, hn::Xor(a, b)), floor);
  return hn::IfThenElse(hn::Eq(b, zero), hn::Div(a, b), y);
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#endif
