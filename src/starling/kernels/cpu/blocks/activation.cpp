#include "starling/kernels/cpu/simd/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "starling/kernels/cpu/blocks/activation.cpp"
#include <hwy/foreach_target.h>

#include "starling/kernels/cpu/simd/erf-inl.h"
#include "starling/kernels/cpu/simd/fns.h"
#include "starling/kernels/cpu/simd/map-inl.h"
#include "starling/kernels/cpu/simd/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace starling::kernels {
namespace HWY_NAMESPACE {
namespace {

// x clamped to ±bound, so that products of a limit with 0 are 0. Keeps NaN, unlike the min and max instructions.
template <class D, class V>
HWY_INLINE V clamped(D d, V x, double bound) {
  const V top = hn::Set(d, static_cast<hn::TFromD<D>>(bound)), bottom = hn::Neg(top);
  return hn::IfThenElse(hn::Gt(x, top), top, hn::IfThenElse(hn::Lt(x, bottom), bottom, x));
}

template <class D, class V>
HWY_INLINE V above_lowest(D d, V x) {
  return hn::IfThenElse(hn::Eq(x, hn::Neg(hn::Inf(d))), hn::Set(d, hwy::LowestValue<hn::TFromD<D>>()), x);
}

// Bound beyond which every activation here is at its limit in double precision.
constexpr double kFar = 1000;

constexpr double kSeluAlpha = 1.6732632423543772848170429916717;
constexpr double kSeluScale = 1.0507009873554804934193349852946;

// Coefficients of 2 sqrt(2 / pi) (x + 0.044715 x^3), whose sigmoid gelu_tanh multiplies x with.
constexpr double kGeluSlope = 1.5957691216057308;
constexpr double kGeluCubic = 0.044715;

template <class D, class V>
HWY_INLINE V constant(D d, double value, V) {
  return hn::Set(d, static_cast<hn::TFromD<D>>(value));
}

template <class D, class V>
HWY_INLINE V gelu_argument(D d, V x) {
  const V square = hn::Mul(x, x);
  return hn::Mul(hn::Mul(constant(d, kGeluSlope, x), x), hn::MulAdd(constant(d, kGeluCubic, x), square, hn::Set(d, 1)));
}

template <class D, class V>
HWY_INLINE V elu_value(D d, V x, V alpha) {
  return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(alpha, expm1_vec(d, hn::Min(hn::Zero(d), x))), x);
}

template <class D, class V>
HWY_INLINE V elu_slope(D d, V x, V alpha) {
  const auto rising = hn::Gt(x, hn::Zero(d));
  return hn::IfThenElse(rising, hn::Set(d, 1), hn::Mul(alpha, exp_vec(d, hn::IfThenZeroElse(rising, x))));
}

// tanh(softplus(x)) = n / (n + 2) with n = e (e + 2), e = exp(x); from 40 on it is 1.
template <class V>
struct MishParts {
  V e;
  V n;
};

template <class D, class V>
HWY_INLINE MishParts<V> mish_parts(D d, V x) {
  const V e = exp_vec(d, hn::Min(constant(d, 40, x), x));
  return {e, hn::Mul(e, hn::Add(e, hn::Set(d, 2)))};
}

struct Relu : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return hn::IfThenZeroElse(hn::Lt(x, hn::Zero(d)), x);
  }
};
struct ReluBackward : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V dy, V y, const double*) const {
    return hn::IfThenElseZero(hn::Gt(y, hn::Zero(d)), dy);
  }
};
struct LeakyRelu : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double* params) const {
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, param(d, params, 0)), x);
  }
};
struct LeakyReluBackward : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V dy, V x, const double* params) const {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), dy, hn::Mul(dy, param(d, params, 0)));
  }
};
struct Prelu : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, V weight, const double*) const {
    return hn::IfThenElse(hn::Lt(x, hn::Zero(d)), hn::Mul(x, weight), x);
  }
};
struct PreluBackward : MapTernary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V dy, V x, V weight, const double*) const {
    return hn::IfThenElse(hn::Gt(x, hn::Zero(d)), dy, hn::Mul(dy, weight));
  }
};
struct Elu : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double* params) const {
    return elu_value(d, x, param(d, params, 0));
  }
};
struct EluBackward : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V dy, V x, const double* params) const {
    return hn::Mul(dy, elu_slope(d, x, param(d, params, 0)));
  }
};
struct Selu : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return hn::Mul(constant(d, kSeluScale, x), elu_value(d, x, constant(d, kSeluAlpha, x)));
  }
};
struct SeluBackward : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V dy, V x, const double*) const {
    return hn::Mul(hn::Mul(dy, constant(d, kSeluScale, x)), elu_slope(d, x, constant(d, kSeluAlpha, x)));
  }
};
struct Gelu : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return gelu_vec(d, x);
  }
};
struct GeluBackward : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V dy, V x, const double*) const {
    const V at = clamped(d, x, kFar);
    const V density =
        hn::Mul(constant(d, 0.39894228040143267794, x), exp_vec(d, hn::Mul(constant(d, -0.5, x), hn::Mul(at, at))));
    return hn::Mul(dy, hn::MulAdd(at, density, normal_share(d, x)));
  }
};
struct GeluTanh : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return hn::Mul(above_lowest(d, x), sigmoid_vec(d, gelu_argument(d, x)));
  }
};
struct GeluTanhBackward : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V dy, V x, const double*) const {
    const V at = clamped(d, x, kFar);
    const V share = sigmoid_vec(d, gelu_argument(d, at));
    const V slope =
        hn::Mul(constant(d, kGeluSlope, x), hn::MulAdd(constant(d, 3 * kGeluCubic, x), hn::Mul(at, at), hn::Set(d, 1)));
    const V rise = hn::Mul(share, hn::Sub(hn::Set(d, 1), share));
    return hn::Mul(dy, hn::MulAdd(hn::Mul(at, slope), rise, share));
  }
};
struct Silu : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    return hn::Mul(above_lowest(d, x), sigmoid_vec(d, x));
  }
};
struct SiluBackward : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V dy, V x, const double*) const {
    const V at = clamped(d, x, kFar), one = hn::Set(d, 1);
    const V share = sigmoid_vec(d, at);
    return hn::Mul(dy, hn::Mul(share, hn::MulAdd(at, hn::Sub(one, share), one)));
  }
};
struct Softplus : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    // exp(-|x|), which never overflows.
    const V small = exp_vec(d, hn::Neg(hn::Abs(x)));
    return hn::Add(hn::Max(x, hn::Zero(d)), log1p_vec(d, small));
  }
};
struct SoftplusBackward : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V dy, V x, const double*) const {
    return hn::Mul(dy, sigmoid_vec(d, x));
  }
};
struct Mish : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    const auto [e, n] = mish_parts(d, x);
    return hn::Mul(above_lowest(d, x), hn::Div(n, hn::Add(n, hn::Set(d, 2))));
  }
};
struct MishBackward : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V dy, V x, const double*) const {
    const V at = clamped(d, x, kFar), one = hn::Set(d, 1);
    const auto [e, n] = mish_parts(d, at);
    const V below = hn::Add(n, hn::Set(d, 2));
    // 1 - tanh^2 = 4 (n + 1) / (n + 2)^2
    const V rise = hn::Div(hn::Mul(hn::Set(d, 4), hn::Add(n, one)), hn::Mul(below, below));
    const V share = hn::Div(e, hn::Add(e, one));
    return hn::Mul(dy, hn::MulAdd(hn::Mul(at, share), rise, hn::Div(n, below)));
  }
};
struct Hardswish : MapUnary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V x, const double*) const {
    const V ramp = hn::Mul(hn::Add(clamped(d, x, 3), hn::Set(d, 3)), constant(d, 1.0 / 6, x));
    return hn::Mul(above_lowest(d, x), ramp);
  }
};
struct HardswishBackward : MapBinary {
  template <class D, class V>
  HWY_INLINE V operator()(D d, V dy, V x, const double*) const {
    // x / 3 + 1/2, of which the sum is exact near its root.
    const V inside = hn::Mul(hn::Add(x, constant(d, 1.5, x)), constant(d, 1.0 / 3, x));
    const V three = hn::Set(d, 3);
    const V above = hn::IfThenElse(hn::Lt(x, three), inside, hn::Set(d, 1));
    return hn::IfThenZeroElse(hn::Le(x, hn::Neg(three)), hn::Mul(dy, above));  // 0 for an infinite dy too
  }
};

void add_blocks(BlockTable& table) {
  add_float<Relu>(table, "relu");
  add_float<ReluBackward>(table, "relu_backward");
  add_float<LeakyRelu>(table, "leaky_relu");
  add_float<LeakyReluBackward>(table, "leaky_relu_backward");
  add_float<Prelu>(table, "prelu");
  add_float<PreluBackward>(table, "prelu_backward");
  add_float<Elu>(table, "elu");
  add_float<EluBackward>(table, "elu_backward");
  add_float<Selu>(table, "selu");
  add_float<SeluBackward>(table, "selu_backward");
  add_float<Gelu>(table, "gelu");
  add_float<GeluBackward>(table, "gelu_backward");
  add_float<GeluTanh>(table, "gelu_tanh");
  add_float<GeluTanhBackward>(table, "gelu_tanh_backward");
  add_float<Silu>(table, "silu");
  add_float<SiluBackward>(table, "silu_backward");
  add_float<Softplus>(table, "softplus");
  add_float<SoftplusBackward>(table, "softplus_backward");
  add_float<Mish>(table, "mish");
  add_float<MishBackward>(table, "mish_backward");
  add_float<Hardswish>(table, "hardswish");
  add_float<HardswishBackward>(table, "hardswish_backward");
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace starling::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace starling::kernels {
STARLING_REGISTER_BLOCKS(activation, add_blocks);
}  // namespace starling::kernels
#endif
