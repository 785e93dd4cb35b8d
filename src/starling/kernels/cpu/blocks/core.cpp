#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/blocks/core.cpp"
#include <hwy/foreach_target.h>

#include "starling/kernels/cpu/simd/fns.h"
#include "starling/kernels/cpu/simd/map-inl.h"
#include "starling/kernels/cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace {

struct Add : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b, const double*) const {
    return hn::Add(a, b);
  }
};
struct Sub : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b, const double*) const {
    return hn::Sub(a, b);
  }
};
struct Mul : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b, const double*) const {
    return hn::Mul(a, b);
  }
};
struct Div : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b, const double*) const {
    return hn::Div(a, b);
  }
};
struct Maximum : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b, const double*) const {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) return max_nan(a, b);
    return hn::Max(a, b);
  }
};
struct Minimum : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V a, V b, const double*) const {
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) return min_nan(a, b);
    return hn::Min(a, b);
  }
};

struct Eq : MapBinary {
  template <class D, class V>
  HWY_INLINE hn::Mask<D> operator()(D, V a, V b, const double*) const {
    return hn::Eq(a, b);
  }
};
struct Ne : MapBinary {
  template <class D, class V>
  HWY_INLINE hn::Mask<D> operator()(D, V a, V b, const double*) const {
    return hn::Not(hn::Eq(a, b));  // hn::Ne is ordered on some targets: it would be false for NaN
  }
};
struct Lt : MapBinary {
  template <class D, class V>
  HWY_INLINE hn::Mask<D> operator()(D, V a, V b, const double*) const {
    return hn::Lt(a, b);
  }
};
struct Le : MapBinary {
  template <class D, class V>
  HWY_INLINE hn::Mask<D> operator()(D, V a, V b, const double*) const {
    // Highway has no ordered comparison with equality for 64-bit integers on every target.
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) return hn::Le(a, b);
    return hn::Not(hn::Lt(b, a));
  }
};
struct Gt : MapBinary {
  template <class D, class V>
  HWY_INLINE hn::Mask<D> operator()(D d, V a, V b, const double* params) const {
    return Lt()(d, b, a, params);
  }
};
struct Ge : MapBinary {
  template <class D, class V>
  HWY_INLINE hn::Mask<D> operator()(D d, V a, V b, const double* params) const {
    return Le()(d, b, a, params);
  }
};

struct Where {
  static constexpr int kArity = 3;
  static constexpr unsigned kBoolInputs = 1;
  template <class D, class V>
  HWY_INLINE V operator()(D, hn::Mask<D> condition, V a, V b, const double*) const {
    return hn::IfThenElse(condition, a, b);
  }
};

struct Neg : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x, const double*) const {
    return hn::Neg(x);
  }
};
struct Abs : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x, const double*) const {
    return hn::Abs(x);
  }
};
// Sign; zeros and NaN are kept.
struct Sign : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    const V zero = hn::Zero(d);
    if constexpr (hwy::IsFloat<hn::TFromD<D>>()) {
      return hn::IfThenElse(hn::Or(hn::Lt(x, zero), hn::Gt(x, zero)), hn::CopySign(hn::Set(d, 1), x), x);
    } else {
      return hn::Sub(hn::VecFromMask(d, hn::Lt(x, zero)), hn::VecFromMask(d, hn::Gt(x, zero)));
    }
  }
};
struct Square : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x, const double*) const {
    return hn::Mul(x, x);
  }
};
struct Reciprocal : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return hn::Div(hn::Set(d, 1), x);
  }
};
struct Rsqrt : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return hn::Div(hn::Set(d, 1), hn::Sqrt(x));
  }
};
// Bound converted to the lanes' type; integers saturate.
template <class T>
T bound(double value) {
  if constexpr (!hwy::IsFloat<T>()) {
    if (value <= static_cast<double>(hwy::LimitsMin<T>())) return hwy::LimitsMin<T>();
    if (value >= static_cast<double>(hwy::LimitsMax<T>())) return hwy::LimitsMax<T>();
  }
  return static_cast<T>(value);
}

struct Clamp : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double* params) const {
    using T = hn::TFromD<D>;
    const V low = hn::Set(d, bound<T>(params[0])), high = hn::Set(d, bound<T>(params[1]));
    return hn::IfThenElse(hn::Lt(x, low), low, hn::IfThenElse(hn::Gt(x, high), high, x));  // keeps NaN
  }
};
struct ClampBackward : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V dy, V x, const double* params) const {
    const auto inside = hn::And(hn::Ge(x, param(d, params, 0)), hn::Le(x, param(d, params, 1)));
    return hn::IfThenElseZero(inside, dy);
  }
};
// Linear interpolation from the nearer end, so that both ends are exact.
struct Lerp : MapTernary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V a, V b, V weight, const double*) const {
    using T = hn::TFromD<D>;
    const V step = hn::Sub(b, a);
    const V from_b = hn::NegMulAdd(step, hn::Sub(hn::Set(d, 1), weight), b);
    return hn::IfThenElse(hn::Lt(weight, hn::Set(d, static_cast<T>(0.5))), hn::MulAdd(weight, step, a), from_b);
  }
};
struct Sqrt : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V x, const double*) const {
    return hn::Sqrt(x);
  }
};

struct SqrtBackward : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D, V dy, V y, const double*) const {
    return hn::Div(dy, hn::Add(y, y));
  }
};

void add_blocks(BlockTable& table) {
  add_any<Add>(table, "add");
  add_any<Sub>(table, "sub");
  add_any<Mul>(table, "mul");
  add_any<Neg>(table, "neg");
  add_any<Maximum>(table, "maximum");
  add_any<Minimum>(table, "minimum");
  add_every<Eq>(table, "equal");
  add_every<Ne>(table, "not_equal");
  add_any<Lt>(table, "less");
  add_any<Le>(table, "less_equal");
  add_any<Gt>(table, "greater");
  add_any<Ge>(table, "greater_equal");
  add_every<Where>(table, "where");
  add_any<Abs>(table, "abs");
  add_any<Sign>(table, "sign");
  add_any<Square>(table, "square");
  add_any<Clamp>(table, "clamp");
  add_float<Div>(table, "div");
  add_float<Reciprocal>(table, "reciprocal");
  add_float<Rsqrt>(table, "rsqrt");
  add_float<ClampBackward>(table, "clamp_backward");
  add_float<Lerp>(table, "lerp");
  add_float<Sqrt>(table, "sqrt");
  add_float<SqrtBackward>(table, "sqrt_backward");
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
STARLING_REGISTER_BLOCKS(core, add_blocks);
}  // namespace starling::kernels
#endif
