// erf and erfc of |x| on vectors of float or double. Below 1 an odd polynomial, fitted to relative error; from 1 on
// exp(P(x)) with P fitted to log(erfc(x)), its error weighted by erfc(x) itself.
#if defined(STARLING_KERNELS_CPU_SIMD_ERF_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_KERNELS_CPU_SIMD_ERF_INL_H
#undef STARLING_KERNELS_CPU_SIMD_ERF_INL_H
#else
#define STARLING_KERNELS_CPU_SIMD_ERF_INL_H
#endif

#include <hwy/highway.h>

#include "starling/kernels/cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Coefficients by rising power: of erf(x) / x in x^2 on [0, 1], and of log(erfc(x)) in x on [1, kEnd].
template <class T>
struct ErfFit;

template <>
struct ErfFit<float> {
  static constexpr float kEnd = 4.0f;  // erf of larger arguments rounds to 1
  static constexpr float kNear[] = {1.128379166f,    -0.3761262582f,    0.1128358515f, -0.02685381199f,
                                    0.005188327784f, -0.0008010194475f, 7.8538641e-5f};
  static constexpr float kTail[] = {-0.000341528308f, -1.127089167f,   -0.6381448732f,  -0.1031067174f,
                                    0.02183804532f,   -0.00294765342f, 0.0001863786749f};
};

template <>
struct ErfFit<double> {
  static constexpr double kEnd = 6.0;
  static constexpr double kNear[] = {1.1283791670955125737,     -0.37612638903183747605,    0.1128379167095485751,
                                     -0.026866170645072897031,  0.0052239776247808821549,   -0.00085483269787429198372,
                                     0.00012055331036921717475, -0.00001492559350735341101, 1.64609728236236653e-6,
                                     -1.6350025285488855138e-7, 1.4657880224330726318e-8,   -1.1365667300507646102e-9,
                                     5.9452637991248769276e-11};
  static constexpr double kTail[] = {
      -5.0291885294421541076e-7,  -1.1283740888160009197,      -0.63664363102026365673,    -0.1027034314774382892,
      0.018990163600628748395,    0.00041064917088328553008,   -0.001915965937376032096,   0.00077066190454813326154,
      -0.00013506254428529163438, -0.000020260396624890541974, 0.000022819961664963207805, -8.6663566329678100528e-6,
      2.1354786845826461027e-6,   -3.732657470084038211e-7,    4.6417803794181650802e-8,   -3.9337804374531447397e-9,
      2.0446852566188417668e-10,  -4.9278801809167762457e-12};
};

// erf(a) for 0 <= a <= 1.
template <class D, class V>
HWY_INLINE V erf_near(D d, V a) {
  return hn::Mul(a, polynomial(d, ErfFit<hn::TFromD<D>>::kNear, hn::Mul(a, a)));
}

// erfc(a) for a >= 1, zero where it is negligible beside 1; NaN propagates.
template <class D, class V>
HWY_INLINE V erfc_tail(D d, V a) {
  using Fit = ErfFit<hn::TFromD<D>>;
  const V end = hn::Set(d, Fit::kEnd);
  const V y = exp_nonpositive(d, polynomial(d, Fit::kTail, hn::Min(end, a)));
  return hn::IfThenZeroElse(hn::Gt(a, end), y);
}

template <class D, class V>
HWY_INLINE V erf_vec(D d, V x) {
  const V one = hn::Set(d, 1);
  const V a = hn::Abs(x);
  const V y = hn::IfThenElse(hn::Lt(a, one), erf_near(d, a), hn::Sub(one, erfc_tail(d, a)));
  return hn::IfThenElse(hn::IsNaN(x), x, hn::CopySign(y, x));
}

// Bound from which the normal distribution function at -a is negligible beside 1 in floats.
constexpr float kNormalEnd = 5.6f;

// Normal distribution function at -a for 0 <= a <= kNormalEnd, as 2^(a P(a) - 1): one polynomial, one exponential. For
// floats. P is fitted to relative error up to 0.75, and beyond to the error of a times the function, which stays below
// 1.5e-7; more terms would make gelu slower than memory.
template <class D, class V>
HWY_INLINE V quick_normal_tail(D d, V a) {
  static constexpr float kFit[] = {-1.151137844f,   -0.4589417371f,    -0.05322209206f,
                                   0.007984022962f, -0.0007478781774f, 3.159355864e-5f};
  // (2^r - 1) / r on |r| <= 1/2
  static constexpr float kExp2Fit[] = {0.6931472153f, 0.2402223128f, 0.05550307521f, 0.00967209079f, 0.001340756016f};
  using F = FloatFormat<float>;
  const hn::RebindToSigned<D> di;
  const V one = hn::Set(d, 1), rounder = hn::Set(d, F::kRounder);
  const V p = hn::MulSub(a, polynomial(d, kFit, a), one);
  const V sum = hn::Add(p, rounder);  // nearest integer, in the lowest bits
  const V r = hn::Sub(p, hn::Sub(sum, rounder));
  const auto exponent = hn::ShiftLeft<F::kMantissa>(hn::BitCast(di, sum));
  return times_exp2(d, hn::MulAdd(r, polynomial(d, kExp2Fit, r), one), exponent);
}

// Normal distribution function (1 + erf(x / sqrt(2))) / 2, without cancellation in the lower tail.
template <class D, class V>
HWY_INLINE V normal_share(D d, V x) {
  using T = hn::TFromD<D>;
  const V one = hn::Set(d, 1);
  [[maybe_unused]] const V half = hn::Set(d, static_cast<T>(0.5));
  const auto below = hn::Lt(x, hn::Zero(d));
  if constexpr (sizeof(T) == 4) {
    const V a = hn::Abs(x), end = hn::Set(d, kNormalEnd);
    const V tail = hn::IfThenZeroElse(hn::Gt(a, end), quick_normal_tail(d, at_most(d, end, a)));
    return hn::IfThenElse(below, tail, hn::Sub(one, tail));
  } else {
    const V a = hn::Mul(hn::Abs(x), hn::Set(d, static_cast<T>(0.70710678118654752440)));
    const V tail = hn::Mul(half, erfc_tail(d, a));
    const V far = hn::IfThenElse(below, tail, hn::Sub(one, tail));
    const V near = hn::MulAdd(half, hn::CopySign(erf_near(d, a), x), half);
    return hn::IfThenElse(hn::Lt(a, one), near, far);
  }
}

// gelu: x times the normal distribution function; -0 at -inf. Floats: max(x, 0) - a times the function at -a, a =
// |x|.
template <class D, class V>
HWY_INLINE V gelu_vec(D d, V x) {
  using T = hn::TFromD<D>;
  if constexpr (sizeof(T) == 4) {
    const V end = hn::Set(d, kNormalEnd);
    const V a = at_most(d, end, hn::Abs(x));
    const V y = hn::NegMulAdd(a, quick_normal_tail(d, a), hn::Max(hn::Zero(d), x));
    return hn::CopySign(hn::IfThenZeroElse(hn::Lt(x, hn::Neg(end)), y), x);
  } else {
    const V finite = hn::IfThenElse(hn::Eq(x, hn::Neg(hn::Inf(d))), hn::Set(d, hwy::LowestValue<T>()), x);
    return hn::Mul(finite, normal_share(d, x));
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#endif
