#include <cmath>
#include <numbers>

#include "starling/ops/api/activation.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/activation.h"
#include "starling/ops/def/attrs/unary.h"
#include "starling/ops/def/elementwise_def.h"
#include "starling/ops/def/registry.h"

namespace starling {

Tensor gelu(const Tensor& x) { return apply1(named_op<"gelu">(), {x}); }
Tensor gelu_tanh(const Tensor& x) { return apply1(named_op<"gelu_tanh">(), {x}); }
Tensor silu(const Tensor& x) { return apply1(named_op<"silu">(), {x}); }
Tensor softplus(const Tensor& x) { return apply1(named_op<"softplus">(), {x}); }
Tensor mish(const Tensor& x) { return apply1(named_op<"mish">(), {x}); }

Tensor op::gelu_backward(const Tensor& dy, const Tensor& x) { return apply1(named_op<"gelu_backward">(), {dy, x}); }
Tensor op::gelu_tanh_backward(const Tensor& dy, const Tensor& x) {
  return apply1(named_op<"gelu_tanh_backward">(), {dy, x});
}
Tensor op::silu_backward(const Tensor& dy, const Tensor& x) { return apply1(named_op<"silu_backward">(), {dy, x}); }
Tensor op::softplus_backward(const Tensor& dy, const Tensor& x) {
  return apply1(named_op<"softplus_backward">(), {dy, x});
}
Tensor op::mish_backward(const Tensor& dy, const Tensor& x) { return apply1(named_op<"mish_backward">(), {dy, x}); }

namespace {

using elementwise::backward;
using elementwise::in_epilogue;
using elementwise::unary;
using elementwise::wide;

// x · f(x), where f goes to 0 so fast that the product does too: at -∞ it is -0, not NaN.
double times(double x, double f) { return f == 0 ? std::copysign(0.0, x) : x * f; }

double logistic(double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }
double normal_share(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }
double normal_density(double x) { return std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2; }
double softplus_of(double x) { return std::max(x, 0.0) + std::log1p(std::exp(-std::abs(x))); }

// gelu_tanh: x · logistic(u), with u twice the argument of the tanh.
constexpr double kSlope = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
constexpr double kCubic = 0.044715;
double gelu_argument(double x) { return kSlope * x * (1 + kCubic * x * x); }

// Beyond ±1000 every slope here is at its limit, and no product overflows before.
double within_reach(double x) { return x < -1000 ? -1000 : x > 1000 ? 1000 : x; }

double gelu_slope(double at) {
  const double x = within_reach(at);
  return normal_share(x) + x * normal_density(x);
}
double gelu_tanh_slope(double at) {
  const double x = within_reach(at), share = logistic(gelu_argument(x));
  return share + x * kSlope * (1 + 3 * kCubic * x * x) * share * (1 - share);
}
double silu_slope(double at) {
  const double x = within_reach(at), share = logistic(x);
  return share * (1 + x * (1 - share));
}
double mish_slope(double at) {
  const double x = within_reach(at), t = std::tanh(softplus_of(x));
  return t + x * logistic(x) * (1 - t * t);
}

// Second derivatives, times `scaled`.

// φ(x) (2 - x²)
Tensor gelu_curvature(const Tensor& scaled, const Tensor& x, const Attrs&) {
  const Tensor square_of = square(x);
  const Tensor density = mul(exp(mul(square_of, -0.5)), std::numbers::inv_sqrtpi / std::numbers::sqrt2);
  return mul(scaled, mul(density, sub(2.0, square_of)));
}

// With s = logistic(u): s (1 - s) (2 u' + x u'' + x u'² (1 - 2 s))
Tensor gelu_tanh_curvature(const Tensor& scaled, const Tensor& x, const Attrs&) {
  const Tensor square_of = square(x);
  const Tensor s = sigmoid(mul(mul(x, kSlope), add(mul(square_of, kCubic), 1.0)));
  const Tensor first = mul(add(mul(square_of, 3 * kCubic), 1.0), kSlope);
  const Tensor second = mul(x, 6 * kSlope * kCubic);
  const Tensor bend = mul(mul(x, square(first)), sub(1.0, mul(s, 2.0)));
  const Tensor sum = add(add(mul(first, 2.0), mul(x, second)), bend);
  return mul(op::sigmoid_backward(scaled, s), sum);
}

// s (1 - s) (2 + x (1 - 2 s))
Tensor silu_curvature(const Tensor& scaled, const Tensor& x, const Attrs&) {
  const Tensor s = sigmoid(x);
  return mul(op::sigmoid_backward(scaled, s), add(mul(x, sub(1.0, mul(s, 2.0))), 2.0));
}

// With t = tanh(softplus(x)), s = logistic(x): (1 - t²) s (2 + x (1 - s - 2 t s))
Tensor mish_curvature(const Tensor& scaled, const Tensor& x, const Attrs&) {
  const Tensor s = sigmoid(x), t = tanh(softplus(x));
  const Tensor bend = sub(sub(1.0, s), mul(mul(t, s), 2.0));
  return mul(mul(op::tanh_backward(scaled, t), s), add(mul(x, bend), 2.0));
}

void register_gelu(OpRegistry& ops) {
  ops.add(in_epilogue(unary(
      "gelu", "x · Φ(x), Φ being the normal distribution's share below x.",
      [](const double* x) { return times(x[0], normal_share(x[0])); },
      [](const GradCall& c) { return TensorList{op::gelu_backward(c.grads[0], c.in[0])}; }, kSavesInputs, {-4, 4})));
  ops.add(backward("gelu_backward", "dy times the slope of gelu at x.",
                   [](const double* x) { return x[0] * gelu_slope(x[1]); }, gelu_curvature, {-4, 4}));
  ops.add(in_epilogue(unary(
      "gelu_tanh", "gelu with Φ(x) as (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2.",
      [](const double* x) { return times(x[0], logistic(gelu_argument(x[0]))); },
      [](const GradCall& c) { return TensorList{op::gelu_tanh_backward(c.grads[0], c.in[0])}; }, kSavesInputs,
      {-4, 4})));
  ops.add(backward("gelu_tanh_backward", "dy times the slope of gelu_tanh at x.",
                   [](const double* x) { return x[0] * gelu_tanh_slope(x[1]); }, gelu_tanh_curvature, {-4, 4}));
}

}  // namespace

void register_ops_smooth_activation(OpRegistry& ops) {
  register_gelu(ops);
  ops.add(in_epilogue(unary(
      "silu", "x · sigmoid(x)", [](const double* x) { return times(x[0], logistic(x[0])); },
      [](const GradCall& c) { return TensorList{op::silu_backward(c.grads[0], c.in[0])}; }, kSavesInputs, {-4, 4})));
  ops.add(backward("silu_backward", "dy times the slope of silu at x.",
                   [](const double* x) { return x[0] * silu_slope(x[1]); }, silu_curvature, {-4, 4}));
  ops.add(wide(in_epilogue(unary(
      "softplus", "log(1 + eˣ), without overflow.", [](const double* x) { return softplus_of(x[0]); },
      [](const GradCall& c) { return TensorList{op::softplus_backward(c.grads[0], c.in[0])}; }, kSavesInputs))));
  ops.add(backward(
      "softplus_backward", "dy · sigmoid(x)", [](const double* x) { return x[0] * logistic(x[1]); },
      [](const Tensor& scaled, const Tensor& x, const Attrs&) { return op::sigmoid_backward(scaled, sigmoid(x)); }));
  ops.add(in_epilogue(unary(
      "mish", "x · tanh(softplus(x))", [](const double* x) { return times(x[0], std::tanh(softplus_of(x[0]))); },
      [](const GradCall& c) { return TensorList{op::mish_backward(c.grads[0], c.in[0])}; }, kSavesInputs, {-4, 4})));
  ops.add(backward("mish_backward", "dy times the slope of mish at x.",
                   [](const double* x) { return x[0] * mish_slope(x[1]); }, mish_curvature, {-4, 4}));
}

}  // namespace starling
