#include <cmath>

#include "starling/ops/api/binary.h"
#include "starling/ops/api/select.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/unary.h"
#include "starling/ops/def/elementwise_def.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor sin(const Tensor& x) { return apply1(named_op<"sin">(), {x}); }
Tensor cos(const Tensor& x) { return apply1(named_op<"cos">(), {x}); }
Tensor tan(const Tensor& x) { return apply1(named_op<"tan">(), {x}); }
Tensor asin(const Tensor& x) { return apply1(named_op<"asin">(), {x}); }
Tensor acos(const Tensor& x) { return apply1(named_op<"acos">(), {x}); }
Tensor atan(const Tensor& x) { return apply1(named_op<"atan">(), {x}); }
Tensor sinh(const Tensor& x) { return apply1(named_op<"sinh">(), {x}); }
Tensor cosh(const Tensor& x) { return apply1(named_op<"cosh">(), {x}); }
Tensor tanh(const Tensor& x) { return apply1(named_op<"tanh">(), {x}); }
Tensor op::tanh_backward(const Tensor& dy, const Tensor& y) { return apply1(named_op<"tanh_backward">(), {dy, y}); }
Tensor atan2(const Tensor& y, const Tensor& x) { return elementwise::promoted(named_op<"atan2">(), y, x); }

namespace {

using elementwise::in_epilogue;
using elementwise::number_like;
using elementwise::unary;
using elementwise::wide;
using rules::sum_to;

void register_circular(OpRegistry& ops) {
  ops.add(unary(
      "sin", "The sine.", [](const double* x) { return std::sin(x[0]); },
      [](const GradCall& c) { return TensorList{mul(c.grads[0], cos(c.in[0]))}; }, kSavesInputs, {-20, 20}));
  ops.add(unary(
      "cos", "The cosine.", [](const double* x) { return std::cos(x[0]); },
      [](const GradCall& c) { return TensorList{neg(mul(c.grads[0], sin(c.in[0])))}; }, kSavesInputs, {-20, 20}));
  ops.add(wide(unary(
      "tan", "The tangent.", [](const double* x) { return std::tan(x[0]); },
      [](const GradCall& c) { return TensorList{mul(c.grads[0], add(square(c.out[0]), 1.0))}; }, kSavesOutputs,
      {-1.2, 1.2})));
}

// 1 / √(1 - x²)
Tensor arc_slope(const Tensor& x) { return rsqrt(sub(1.0, square(x))); }

void register_inverse(OpRegistry& ops) {
  ops.add(wide(unary(
      "asin", "The angle in [-π/2, π/2] of this sine.", [](const double* x) { return std::asin(x[0]); },
      [](const GradCall& c) { return TensorList{mul(c.grads[0], arc_slope(c.in[0]))}; }, kSavesInputs, {-0.85, 0.85})));
  ops.add(wide(unary(
      "acos", "The angle in [0, π] of this cosine.", [](const double* x) { return std::acos(x[0]); },
      [](const GradCall& c) { return TensorList{neg(mul(c.grads[0], arc_slope(c.in[0])))}; }, kSavesInputs,
      {-0.85, 0.85})));
  ops.add(unary(
      "atan", "The angle in [-π/2, π/2] of this tangent.", [](const double* x) { return std::atan(x[0]); },
      [](const GradCall& c) { return TensorList{div(c.grads[0], add(square(c.in[0]), 1.0))}; }, kSavesInputs, {-4, 4}));
}

void register_hyperbolic(OpRegistry& ops) {
  ops.add(wide(unary(
      "sinh", "The hyperbolic sine.", [](const double* x) { return std::sinh(x[0]); },
      [](const GradCall& c) { return TensorList{mul(c.grads[0], cosh(c.in[0]))}; }, kSavesInputs)));
  ops.add(wide(unary(
      "cosh", "The hyperbolic cosine.", [](const double* x) { return std::cosh(x[0]); },
      [](const GradCall& c) { return TensorList{mul(c.grads[0], sinh(c.in[0]))}; }, kSavesInputs)));
  ops.add(in_epilogue(unary(
      "tanh", "The hyperbolic tangent.", [](const double* x) { return std::tanh(x[0]); },
      [](const GradCall& c) { return TensorList{op::tanh_backward(c.grads[0], c.out[0])}; }, kSavesOutputs)));
  OpDef slope = elementwise::backward(
      "tanh_backward", "dy · (1 - y²)", [](const double* x) { return x[0] * (1 - x[1] * x[1]); },
      [](const Tensor& scaled, const Tensor& y, const Attrs&) { return mul(scaled, mul(y, -2.0)); }, {-0.9, 0.9});
  slope.inputs = {"dy", "y"};
  ops.add(slope);
}

// With r² = y² + x²: dy · x / r² and -dy · y / r², and 0 at the origin. Both are divided by the larger one first, as
// squares leave the range of the dtype; the gradient does not depend on that number, so it is not recorded.
TensorList grad_atan2(const GradCall& c) {
  const Tensor largest = no_grad([&] { return maximum(abs(c.in[0]), abs(c.in[1])); });
  const Tensor origin = equal(largest, 0.0), one = number_like(largest, 1);
  const Tensor unit = no_grad([&] { return where(origin, one, largest); });
  const Tensor y = div(c.in[0], unit), x = div(c.in[1], unit);
  const Tensor scaled = div(div(c.grads[0], where(origin, one, add(square(y), square(x)))), unit);
  return {c.needs(0) ? sum_to(mul(scaled, x), c.in[0].shape()) : Tensor(),
          c.needs(1) ? sum_to(neg(mul(scaled, y)), c.in[1].shape()) : Tensor()};
}

}  // namespace

void register_ops_trigonometry(OpRegistry& ops) {
  register_circular(ops);
  register_inverse(ops);
  register_hyperbolic(ops);
  OpDef angle = elementwise::binary(
      "atan2", "The angle of the point (x, y), in [-π, π].", [](const double* x) { return std::atan2(x[0], x[1]); },
      grad_atan2, kSavesInputs);
  angle.inputs = {"y", "x"};
  angle.infer = elementwise::infer_broadcast_float;
  ops.add(angle);
}

}  // namespace starling
