#include "starling/ops/api/activation.h"

#include <algorithm>
#include <cmath>

#include "starling/ops/api/binary.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/activation.h"
#include "starling/ops/def/elementwise_def.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor sigmoid(const Tensor& x) { return apply1(named_op<"sigmoid">(), {x}); }
Tensor relu(const Tensor& x) { return apply1(named_op<"relu">(), {x}); }
Tensor leaky_relu(const Tensor& x, double slope) {
  return apply1(named_op<"leaky_relu">(), {x}, op::LeakyReluAttrs{slope});
}
Tensor elu(const Tensor& x, double alpha) { return apply1(named_op<"elu">(), {x}, op::EluAttrs{alpha}); }
Tensor selu(const Tensor& x) { return apply1(named_op<"selu">(), {x}); }
Tensor hardswish(const Tensor& x) { return apply1(named_op<"hardswish">(), {x}); }

Tensor prelu(const Tensor& x, const Tensor& weight) {
  const OpDef& op = named_op<"prelu">();
  if (!x.defined() || !weight.defined() || x.rank() < 3 || weight.rank() != 1 || weight.numel() == 1)
    return apply1(op, {x, weight});
  Shape shape = Shape::filled(x.rank() - 1, 1);
  shape[0] = weight.shape()[0];
  return apply1(op, {x, reshape(weight, shape)});
}

Tensor op::sigmoid_backward(const Tensor& dy, const Tensor& y) {
  return apply1(named_op<"sigmoid_backward">(), {dy, y});
}
Tensor op::relu_backward(const Tensor& dy, const Tensor& y) { return apply1(named_op<"relu_backward">(), {dy, y}); }
Tensor op::leaky_relu_backward(const Tensor& dy, const Tensor& x, double slope) {
  return apply1(named_op<"leaky_relu_backward">(), {dy, x}, op::LeakyReluAttrs{slope});
}
Tensor op::elu_backward(const Tensor& dy, const Tensor& x, double alpha) {
  return apply1(named_op<"elu_backward">(), {dy, x}, op::EluAttrs{alpha});
}
Tensor op::selu_backward(const Tensor& dy, const Tensor& x) { return apply1(named_op<"selu_backward">(), {dy, x}); }
Tensor op::hardswish_backward(const Tensor& dy, const Tensor& x) {
  return apply1(named_op<"hardswish_backward">(), {dy, x});
}
Tensor op::prelu_backward(const Tensor& dy, const Tensor& x, const Tensor& weight) {
  return apply1(named_op<"prelu_backward">(), {dy, x, weight});
}

namespace {

using elementwise::backward;
using elementwise::in_epilogue;
using elementwise::unary;
using rules::sum_to;

constexpr double kSeluAlpha = 1.6732632423543772848170429916717;
constexpr double kSeluScale = 1.0507009873554804934193349852946;

double elu_of(double x, double alpha) { return x < 0 ? alpha * std::expm1(x) : x; }
double elu_slope(double x, double alpha) { return x > 0 ? 1 : alpha * std::exp(x); }

void with_numbers(OpDef& op, const AttrType& type, std::vector<Attrs> values) {
  op.attrs = &type;
  op.cases = [cases = op.cases, values = std::move(values)] {
    auto made = cases();
    for (std::size_t i = 0; i < made.size(); ++i) made[i].attrs = values[i % values.size()];
    return made;
  };
}

void register_sigmoid(OpRegistry& ops) {
  ops.add(in_epilogue(unary(
      "sigmoid", "1 / (1 + e⁻ˣ)", [](const double* x) { return 1 / (1 + std::exp(-x[0])); },
      [](const GradCall& c) { return TensorList{op::sigmoid_backward(c.grads[0], c.out[0])}; }, kSavesOutputs)));
  OpDef slope = backward(
      "sigmoid_backward", "dy · y · (1 - y)", [](const double* x) { return x[0] * x[1] * (1 - x[1]); },
      [](const Tensor& scaled, const Tensor& y, const Attrs&) { return mul(scaled, add(mul(y, -2.0), 1.0)); },
      {0.1, 0.9});
  slope.inputs = {"dy", "y"};
  ops.add(slope);
}

void register_relu(OpRegistry& ops) {
  ops.add(in_epilogue(unary(
      "relu", "x where it is positive, else 0.", [](const double* x) { return x[0] < 0 ? 0.0 : x[0]; },
      [](const GradCall& c) { return TensorList{op::relu_backward(c.grads[0], c.out[0])}; }, kSavesOutputs)));
  OpDef slope = backward(
      "relu_backward", "dy where y > 0, else 0", [](const double* x) { return x[1] > 0 ? x[0] : 0.0; }, nullptr);
  slope.inputs = {"dy", "y"};
  ops.add(slope);
}

void register_leaky_relu(OpRegistry& ops) {
  const std::vector<Attrs> slopes = {op::LeakyReluAttrs{}, op::LeakyReluAttrs{0.2}, op::LeakyReluAttrs{-0.5}};
  OpDef leaky = in_epilogue(unary(
      "leaky_relu", "x, below 0 times a slope.", [](const double* x) { return x[0] < 0 ? x[1] * x[0] : x[0]; },
      [](const GradCall& c) {
        return TensorList{op::leaky_relu_backward(c.grads[0], c.in[0], c.attrs.as<op::LeakyReluAttrs>().slope)};
      },
      kSavesInputs));
  with_numbers(leaky, attr_type<op::LeakyReluAttrs>(), slopes);
  ops.add(leaky);
  OpDef slope = backward(
      "leaky_relu_backward", "dy, times the slope where x ≤ 0.",
      [](const double* x) { return x[1] > 0 ? x[0] : x[2] * x[0]; }, nullptr);
  with_numbers(slope, attr_type<op::LeakyReluAttrs>(), slopes);
  ops.add(slope);
}

// The weight has no gradient where x > 0.
TensorList grad_prelu(const GradCall& c) {
  const auto to_weight = [&] { return sum_to(mul(c.grads[0], minimum(c.in[0], 0.0)), c.in[1].shape()); };
  return {c.needs(0) ? sum_to(op::prelu_backward(c.grads[0], c.in[0], c.in[1]), c.in[0].shape()) : Tensor(),
          c.needs(1) ? to_weight() : Tensor()};
}

TensorList grad_prelu_backward(const GradCall& c) {
  const Tensor &g = c.grads[0], &dy = c.in[0], &x = c.in[1], &weight = c.in[2];
  const auto to_weight = [&] { return where(greater(x, 0.0), elementwise::number_like(g, 0), mul(g, dy)); };
  return {c.needs(0) ? sum_to(op::prelu_backward(g, x, weight), dy.shape()) : Tensor(), Tensor(),
          c.needs(2) ? sum_to(to_weight(), weight.shape()) : Tensor()};
}

void register_prelu(OpRegistry& ops) {
  OpDef op = elementwise::binary(
      "prelu", "x, below 0 times a weight.", [](const double* x) { return x[0] < 0 ? x[1] * x[0] : x[0]; }, grad_prelu,
      kSavesInputs);
  op.inputs = {"x", "weight"};
  op.infer = elementwise::infer_broadcast_float;
  ops.add(op);
  OpDef slope = backward(
      "prelu_backward", "dy, times the weight where x ≤ 0.",
      [](const double* x) { return x[1] > 0 ? x[0] : x[2] * x[0]; }, nullptr);
  slope.inputs = {"dy", "x", "weight"};
  slope.gradient = grad_prelu_backward;
  slope.cases = [] { return elementwise::cases_alike({{}, {}, {0.1, 0.5}}); };
  ops.add(slope);
}

// α eˣ below 0, with x clamped so that the exponential cannot overflow.
Tensor elu_curvature(const Tensor& scaled, const Tensor& x, double alpha) {
  const Tensor falling = mul(mul(scaled, alpha), exp(minimum(x, 0.0)));
  return where(greater(x, 0.0), elementwise::number_like(x, 0), falling);
}

void register_elu(OpRegistry& ops) {
  const std::vector<Attrs> alphas = {op::EluAttrs{}, op::EluAttrs{0.4}, op::EluAttrs{-0.7}};
  OpDef op = in_epilogue(unary(
      "elu", "x, below 0 alpha · (eˣ - 1).", [](const double* x) { return elu_of(x[0], x[1]); },
      [](const GradCall& c) {
        return TensorList{op::elu_backward(c.grads[0], c.in[0], c.attrs.as<op::EluAttrs>().alpha)};
      },
      kSavesInputs));
  with_numbers(op, attr_type<op::EluAttrs>(), alphas);
  ops.add(op);
  OpDef slope = backward(
      "elu_backward", "dy times the slope of elu at x.", [](const double* x) { return x[0] * elu_slope(x[1], x[2]); },
      [](const Tensor& scaled, const Tensor& x, const Attrs& attrs) {
        return elu_curvature(scaled, x, attrs.as<op::EluAttrs>().alpha);
      });
  with_numbers(slope, attr_type<op::EluAttrs>(), alphas);
  ops.add(slope);
  ops.add(in_epilogue(unary(
      "selu", "scale · elu(x, alpha), both chosen so that variances stay at 1.",
      [](const double* x) { return kSeluScale * elu_of(x[0], kSeluAlpha); },
      [](const GradCall& c) { return TensorList{op::selu_backward(c.grads[0], c.in[0])}; }, kSavesInputs)));
  ops.add(backward(
      "selu_backward", "dy times the slope of selu at x.",
      [](const double* x) { return x[0] * kSeluScale * elu_slope(x[1], kSeluAlpha); },
      [](const Tensor& scaled, const Tensor& x, const Attrs&) {
        return elu_curvature(scaled, x, kSeluScale * kSeluAlpha);
      }));
}

void register_hardswish(OpRegistry& ops) {
  ops.add(in_epilogue(unary(
      "hardswish", "x · clamp(x + 3, 0, 6) / 6",
      [](const double* x) { return x[0] <= -3 ? -0.0 : x[0] * ((std::min(x[0], 3.0) + 3) / 6); },
      [](const GradCall& c) { return TensorList{op::hardswish_backward(c.grads[0], c.in[0])}; }, kSavesInputs,
      {-4.3, 4})));
  ops.add(backward(
      "hardswish_backward", "dy times the slope of hardswish at x.",
      [](const double* x) { return x[1] <= -3 ? 0.0
                                   : x[1] < 3 ? x[0] * (x[1] / 3 + 0.5)
                                              : x[0]; },
      [](const Tensor& scaled, const Tensor& x, const Attrs&) {
        const Tensor inside = logical_and(greater(x, -3.0), less(x, 3.0));
        return where(inside, mul(scaled, 1.0 / 3), elementwise::number_like(x, 0));
      },
      {-4.3, 4}));
}

}  // namespace

void register_ops_activation(OpRegistry& ops) {
  register_sigmoid(ops);
  register_relu(ops);
  register_leaky_relu(ops);
  register_prelu(ops);
  register_elu(ops);
  register_hardswish(ops);
}

}  // namespace starling
