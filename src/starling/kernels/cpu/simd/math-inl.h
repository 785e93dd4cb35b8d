// exp, log and functions made of them on vectors of float or double; errors below 4 ulp on every target, correct at
// zero, infinity and subnormals; NaN propagates. One code for both widths: only constants and polynomial lengths
// differ.
#if defined(STARLING_KERNELS_CPU_SIMD_MATH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef STARLING_KERNELS_CPU_SIMD_MATH_INL_H
#undef STARLING_KERNELS_CPU_SIMD_MATH_INL_H
#else
#define STARLING_KERNELS_CPU_SIMD_MATH_INL_H
#endif

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
struct FloatFormat;

template <>
struct FloatFormat<float> {
  static constexpr int kMantissa = 23;
  static constexpr int kBias = 127;
  static constexpr float kExpMin = -104.0f;      // exp of less rounds to zero
  static constexpr float kExpMax = 89.0f;        // exp of more is infinite
  static constexpr float kTanhOne = 10.0f;       // tanh of more is 1
  static constexpr float kLn2Hi = 0.693359375f;  // few bits: products with an exponent are exact
  static constexpr float kLn2Lo = -2.12194440e-4f;
  static constexpr float kMinNormal = 1.17549435e-38f;
  static constexpr float kExpNormal = 87.0f;      // exp of up to this, plus or minus, is a normal number
  static constexpr float kRounder = 12582912.0f;  // 1.5 2^23: adding it leaves an integer in the lowest bits
  static constexpr int kLogTerms = 5;
  // (e^r - 1 - r) / r^2 by rising power of r, fitted on |r| <= ln2 / 2 to relative error of e^r - 1.
  static constexpr float kExpFit[] = {0.5000000063f, 0.1666654205f, 0.04166627893f, 0.008366710693f, 0.001394667921f};
};

template <>
struct FloatFormat<double> {
  static constexpr int kMantissa = 52;
  static constexpr int kBias = 1023;
  static constexpr double kExpMin = -746.0;
  static constexpr double kExpMax = 710.0;
  static constexpr double kTanhOne = 20.0;
  static constexpr double kLn2Hi = 6.93147180369123816490e-01;
  static constexpr double kLn2Lo = 1.90821492927058770002e-10;
  static constexpr double kMinNormal = 2.2250738585072014e-308;
  static constexpr double kExpNormal = 708.0;
  static constexpr double kRounder = 6755399441055744.0;
  static constexpr int kLogTerms = 12;
  static constexpr double kExpFit[] = {0.50000000000000039651,     0.16666666666666684118,   0.041666666666585422168,
                                       0.0083333333333155861659,   0.0013888888929621716339, 0.00019841269901243753591,
                                       0.000024801506992325004704, 2.7557229282576846227e-6, 2.7625516100820388311e-7,
                                       2.5114122678214835089e-8};
};

// Polynomial with these coefficients by rising power.
template <std::size_t N, class D, class V>
HWY_INLINE V polynomial(D d, const hn::TFromD<D> (&c)[N], V x) {
  V y = hn::Set(d, c[N - 1]);
  for (std::size_t i = N - 1; i-- > 0;) y = hn::MulAdd(y, x, hn::Set(d, c[i]));
  return y;
}

// Nearest integer k of |x| < 2^(mantissa - 2), as a float and as exponent bits.
template <class D, class V>
struct Whole {
  V value;
  hn::Vec<hn::RebindToSigned<D>> exponent;
};

template <class D, class V>
HWY_INLINE Whole<D, V> whole_product(D d, V x, V factor) {
  using F = FloatFormat<hn::TFromD<D>>;
  const hn::RebindToSigned<D> di;
  const V rounder = hn::Set(d, F::kRounder);
  const V sum = hn::MulAdd(x, factor, rounder);
  return {hn::Sub(sum, rounder), hn::ShiftLeft<F::kMantissa>(hn::BitCast(di, sum))};
}

// x 2^k for normal x and a normal product, k as exponent bits.
template <class D, class V, class VI>
HWY_INLINE V times_exp2(D d, V x, VI exponent) {
  const hn::RebindToSigned<D> di;
  return hn::BitCast(d, hn::Add(hn::BitCast(di, x), exponent));
}

// 2^k for k within the normal exponents.
template <class D, class VI>
HWY_INLINE hn::Vec<D> exp2_int(D d, VI exponent) {
  return times_exp2(d, hn::Set(d, 1), exponent);
}

// p 2^k in two factors: 2^k alone would overflow at the top and vanish before the subnormals at the bottom.
template <class D, class V, class VI>
HWY_INLINE V scale_exp2(D d, V p, VI exponent) {
  using F = FloatFormat<hn::TFromD<D>>;
  const auto k = hn::ShiftRight<F::kMantissa>(exponent);
  const auto half = hn::ShiftLeft<F::kMantissa>(hn::ShiftRight<1>(k));
  return hn::Mul(hn::Mul(p, exp2_int(d, half)), exp2_int(d, hn::Sub(exponent, half)));
}

// x = k ln2 + r with |r| <= ln2 / 2.
template <class D, class V>
struct ExpParts {
  hn::Vec<hn::RebindToSigned<D>> exponent;  // k, as exponent bits
  V expm1_r;                                // exp(r) - 1, with relative precision near zero
};

template <class D, class V>
HWY_INLINE ExpParts<D, V> exp_parts(D d, V x) {
  using T = hn::TFromD<D>;
  using F = FloatFormat<T>;
  const auto k = whole_product(d, x, hn::Set(d, static_cast<T>(1.44269504088896340736)));
  const V r = hn::NegMulAdd(k.value, hn::Set(d, F::kLn2Lo), hn::NegMulAdd(k.value, hn::Set(d, F::kLn2Hi), x));
  return {k.exponent, hn::MulAdd(hn::Mul(r, r), polynomial(d, F::kExpFit, r), r)};
}

// exp outside the normal range: limits, subnormals, NaN.
template <class D, class V>
HWY_NOINLINE V exp_far(D d, V x) {
  using F = FloatFormat<hn::TFromD<D>>;
  const V clamped = hn::Max(hn::Min(x, hn::Set(d, F::kExpMax)), hn::Set(d, F::kExpMin));
  const auto parts = exp_parts(d, clamped);
  const V y = scale_exp2(d, hn::Add(parts.expm1_r, hn::Set(d, 1)), parts.exponent);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

template <class D, class V>
HWY_INLINE V exp_vec(D d, V x) {
  using F = FloatFormat<hn::TFromD<D>>;
  if (HWY_UNLIKELY(!hn::AllTrue(d, hn::Le(hn::Abs(x), hn::Set(d, F::kExpNormal))))) return exp_far(d, x);
  const auto parts = exp_parts(d, x);
  return times_exp2(d, hn::Add(parts.expm1_r, hn::Set(d, 1)), parts.exponent);
}

// a / b for b within a few powers of 2 of 1. On targets with an estimate of 1 / b of half the float precision, one
// Newton step is faster than a division.
template <class D, class V>
HWY_INLINE V quick_quotient([[maybe_unused]] D d, V a, V b) {
  if constexpr (HWY_TARGET <= HWY_AVX3 && sizeof(hn::TFromD<D>) == 4) {
    const V estimate = hn::ApproximateReciprocal(b);
    const V quotient = hn::Mul(a, estimate);
    return hn::MulAdd(hn::NegMulAdd(b, quotient, a), estimate, quotient);
  } else {
    return hn::Div(a, b);
  }
}

// exp(x) for finite x or -inf, x <= 0 up to rounding, as in softmax; results below the smallest normal number become
// zero. Floats: as 2^(x / ln2), with an error of |x| units in the last place, which is small beside the largest term,
// e^0.
template <class D, class V>
HWY_INLINE V exp_nonpositive(D d, V x) {
  using T = hn::TFromD<D>;
  using F = FloatFormat<T>;
  const V one = hn::Set(d, 1);
  const V floor = hn::Set(d, static_cast<T>(-(F::kBias - 1) * 0.6931471805599453));
  const V reached = hn::Max(x, floor);
  V y;
  if constexpr (sizeof(T) == 4) {
    // (2^r - 1) / r on |r| <= 1/2
    static constexpr float kFit[] = {0.6931472153f, 0.2402223128f, 0.05550307521f, 0.00967209079f, 0.001340756016f};
    const V factor = hn::Set(d, static_cast<T>(1.44269504088896340736));
    const auto k = whole_product(d, reached, factor);
    const V r = hn::MulSub(reached, factor, k.value);
    y = times_exp2(d, hn::MulAdd(r, polynomial(d, kFit, r), one), k.exponent);
  } else {
    const auto parts = exp_parts(d, reached);
    y = times_exp2(d, hn::Add(parts.expm1_r, one), parts.exponent);
  }
  return hn::IfThenElse(hn::IsNaN(x), x, hn::IfThenZeroElse(hn::Lt(x, floor), y));
}

template <class D, class V>
HWY_INLINE V sigmoid_vec(D d, V x) {
  const V one = hn::Set(d, 1);
  const V e = exp_vec(d, hn::Neg(hn::Abs(x)));
  return quick_quotient(d, hn::IfThenElse(hn::Lt(x, hn::Zero(d)), e, one), hn::Add(one, e));
}

// Minimum of two values; NaN if x is NaN (the instruction returns its second operand then).
template <class D, class V>
HWY_INLINE V at_most([[maybe_unused]] D d, V bound, V x) {
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
  return hn::IfThenElse(hn::Lt(bound, x), bound, x);
#else
  return hn::Min(bound, x);
#endif
}

// exp(-2|x|) - 1 for |x| up to where it is -1. Floats: as 2^y - 1; the rounding error of y = -2|x| / ln2 is relatively
// small in the result.
template <class D, class V>
HWY_INLINE V expm1_twice_down(D d, V magnitude) {
  using T = hn::TFromD<D>;
  if constexpr (sizeof(T) == 4) {
    // (2^r - 1) / r on |r| <= 1/2, fitted to relative error.
    static constexpr float kFit[] = {0.693147188f,    0.2402264978f,   0.05550357005f,
                                     0.009618238345f, 0.001339096463f, 0.0001540351687f};
    const V factor = hn::Set(d, static_cast<T>(-2.88539008177792681472));
    const auto k = whole_product(d, magnitude, factor);
    const V r = hn::MulSub(magnitude, factor, k.value);
    const V scale = exp2_int(d, k.exponent);
    return hn::MulAdd(hn::Mul(scale, r), polynomial(d, kFit, r), hn::Sub(scale, hn::Set(d, 1)));
  } else {
    const auto parts = exp_parts(d, hn::Mul(magnitude, hn::Set(d, -2)));
    const V scale = exp2_int(d, parts.exponent);
    return hn::MulAdd(scale, parts.expm1_r, hn::Sub(scale, hn::Set(d, 1)));
  }
}

// tanh|x| = -m / (2 + m) with m = exp(-2|x|) - 1, which keeps its relative precision near zero.
template <class D, class V>
HWY_INLINE V tanh_vec(D d, V x) {
  using F = FloatFormat<hn::TFromD<D>>;
  const V m = expm1_twice_down(d, at_most(d, hn::Set(d, F::kTanhOne), hn::Abs(x)));
  return hn::CopySign(quick_quotient(d, m, hn::Add(m, hn::Set(d, 2))), x);
}

// z/3 + z^2/5 + ... without the leading 1: the tail of atanh(s)/s with z = s^2.
template <int Term, int Terms, class D, class V>
HWY_INLINE V atanh_series(D d, V z) {
  using T = hn::TFromD<D>;
  if constexpr (Term == Terms) {
    return hn::Set(d, static_cast<T>(1.0 / (2 * Term + 1)));
  } else {
    return hn::MulAdd(atanh_series<Term + 1, Terms>(d, z), z, hn::Set(d, static_cast<T>(1.0 / (2 * Term + 1))));
  }
}

// x = 2^e (1 + f) with 1 + f in [sqrt(1/2), sqrt(2)); log(1 + f) = f + tail, of which f is exact.
template <class V>
struct LogParts {
  V e;
  V f;
  V tail;
};

// For positive finite x. log(1 + f) = f - s (f - 2 z P(z)) with s = f / (2 + f), z = s^2.
template <class D, class V>
HWY_INLINE LogParts<V> log_parts(D d, V x) {
  using T = hn::TFromD<D>;
  using F = FloatFormat<T>;
  const hn::RebindToSigned<D> di;
  using TI = hn::TFromD<decltype(di)>;
  constexpr int kLift = F::kMantissa + 1;
  const auto small = hn::Lt(x, hn::Set(d, F::kMinNormal));
  const V lifted = hn::IfThenElse(small, hn::Mul(x, hn::Set(d, static_cast<T>(TI{1} << kLift))), x);
  const auto bits = hn::BitCast(di, lifted);
  const auto root = hn::BitCast(di, hn::Set(d, static_cast<T>(0.70710678118654752)));
  const auto k = hn::ShiftRight<F::kMantissa>(hn::Sub(bits, root));
  const V f = hn::Sub(hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<F::kMantissa>(k))), hn::Set(d, 1));
  const V e = hn::Sub(hn::ConvertTo(d, k), hn::IfThenElseZero(small, hn::Set(d, static_cast<T>(kLift))));
  const V s = hn::Div(f, hn::Add(f, hn::Set(d, 2)));
  const V z = hn::Mul(s, s);
  const V series = hn::Mul(hn::Add(z, z), atanh_series<1, F::kLogTerms>(d, z));
  return {e, f, hn::Neg(hn::Mul(s, hn::Sub(f, series)))};
}

// Logarithm where log_parts does not hold: zero, infinity, NaN and negative numbers.
template <class D, class V>
HWY_INLINE V log_or_limit(D d, V x, V y) {
  const V infinity = hn::Inf(d);
  const V special =
      hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), hn::IfThenElse(hn::Eq(x, infinity), x, hn::NaN(d)));
  const auto ordinary = hn::And(hn::Gt(x, hn::Zero(d)), hn::Lt(x, infinity));
  return hn::IfThenElse(ordinary, y, special);
}

template <class D, class V>
HWY_INLINE V log_vec(D d, V x) {
  using F = FloatFormat<hn::TFromD<D>>;
  const auto parts = log_parts(d, x);
  const V rest = hn::MulAdd(parts.e, hn::Set(d, F::kLn2Lo), parts.tail);
  return log_or_limit(d, x, hn::MulAdd(parts.e, hn::Set(d, F::kLn2Hi), hn::Add(parts.f, rest)));
}

template <class D, class V>
HWY_INLINE V log2_vec(D d, V x) {
  using T = hn::TFromD<D>;
  const auto parts = log_parts(d, x);
  const V of_fraction = hn::Add(parts.f, parts.tail);
  return log_or_limit(d, x, hn::MulAdd(of_fraction, hn::Set(d, static_cast<T>(1.44269504088896340736)), parts.e));
}

// log(1 + x) = log(u) x / (u - 1) with u = 1 + x as rounded: the quotient cancels the rounding.
template <class D, class V>
HWY_INLINE V log1p_vec(D d, V x) {
  const V one = hn::Set(d, 1);
  const V u = hn::Add(x, one);
  const V y = hn::Mul(log_vec(d, u), hn::Div(x, hn::Sub(u, one)));
  return hn::IfThenElse(hn::Or(hn::Eq(u, one), hn::Eq(x, hn::Inf(d))), x, y);
}

// 2^k (exp(r) - 1) + (2^k - 1); where that would overflow, the 1 is negligible.
template <class D, class V>
HWY_INLINE V expm1_vec(D d, V x) {
  using T = hn::TFromD<D>;
  using F = FloatFormat<T>;
  const V one = hn::Set(d, 1);
  const V clamped = hn::Max(hn::Min(x, hn::Set(d, F::kExpMax)), hn::Set(d, F::kExpMin / 2));
  const auto parts = exp_parts(d, clamped);
  const V scale = exp2_int(d, parts.exponent);
  const V near = hn::MulAdd(scale, parts.expm1_r, hn::Sub(scale, one));
  const V far = scale_exp2(d, hn::Add(parts.expm1_r, one), parts.exponent);
  const V y = hn::IfThenElse(hn::Gt(clamped, hn::Set(d, F::kExpMax / 2)), far, near);
  return hn::IfThenElse(hn::IsNaN(x), x, hn::CopySign(y, x));
}

// sinh = (m + m / (m + 1)) / 2 with m = e^|x| - 1. From 22 on e^-|x| is negligible, and e^(|x|/2) squared reaches as
// far as the result does.
template <class D, class V>
HWY_INLINE V sinh_vec(D d, V x) {
  using T = hn::TFromD<D>;
  const V half = hn::Set(d, static_cast<T>(0.5)), far = hn::Set(d, static_cast<T>(22));
  const V a = hn::Abs(x);
  const V m = expm1_vec(d, hn::Min(a, far));
  const V near = hn::Mul(half, hn::Add(m, hn::Div(m, hn::Add(m, hn::Set(d, 1)))));
  const V root = exp_vec(d, hn::Mul(half, a));
  const V y = hn::IfThenElse(hn::Gt(a, far), hn::Mul(hn::Mul(half, root), root), near);
  return hn::IfThenElse(hn::IsNaN(x), x, hn::CopySign(y, x));
}

template <class D, class V>
HWY_INLINE V cosh_vec(D d, V x) {
  using T = hn::TFromD<D>;
  const V half = hn::Set(d, static_cast<T>(0.5)), far = hn::Set(d, static_cast<T>(22));
  const V a = hn::Abs(x);
  const V root = exp_vec(d, hn::Mul(half, a));
  const V e = exp_vec(d, hn::Min(a, far));
  const V near = hn::MulAdd(half, e, hn::Div(half, e));
  const V y = hn::IfThenElse(hn::Gt(a, far), hn::Mul(hn::Mul(half, root), root), near);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

// Maximum; NaN if either is NaN (the instruction alone would lose it).
template <class V>
HWY_INLINE V max_nan(V a, V b) {
  return hn::IfThenElse(hn::Or(hn::Lt(a, b), hn::IsNaN(b)), b, a);
}

template <class V>
HWY_INLINE V min_nan(V a, V b) {
  return hn::IfThenElse(hn::Or(hn::Lt(b, a), hn::IsNaN(b)), b, a);
}

}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#endif
