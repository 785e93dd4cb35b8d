#include "starling/ops/unary.h"

#include <algorithm>
#include <cmath>

#include "starling/ops/apply.h"
#include "starling/ops/binary.h"
#include "starling/ops/creation.h"
#include "starling/ops/registry.h"
#include "starling/ops/rules.h"

namespace starling {

Tensor neg(const Tensor& x) { return apply1(named_op<"neg">(), {x}); }
Tensor exp(const Tensor& x) { return apply1(named_op<"exp">(), {x}); }
Tensor log(const Tensor& x) { return apply1(named_op<"log">(), {x}); }
Tensor sqrt(const Tensor& x) { return apply1(named_op<"sqrt">(), {x}); }
Tensor tanh(const Tensor& x) { return apply1(named_op<"tanh">(), {x}); }
Tensor sigmoid(const Tensor& x) { return apply1(named_op<"sigmoid">(), {x}); }
Tensor relu(const Tensor& x) { return apply1(named_op<"relu">(), {x}); }
Tensor softplus(const Tensor& x) { return apply1(named_op<"softplus">(), {x}); }
Tensor tanh_backward(const Tensor& dy, const Tensor& y) { return apply1(named_op<"tanh_backward">(), {dy, y}); }
Tensor sigmoid_backward(const Tensor& dy, const Tensor& y) { return apply1(named_op<"sigmoid_backward">(), {dy, y}); }
Tensor relu_backward(const Tensor& dy, const Tensor& y) { return apply1(named_op<"relu_backward">(), {dy, y}); }

namespace {

std::vector<OpCase> unary_cases(double low, double high) {
  const auto one = [&](Shape shape) {
    return OpCase{{{.shape = shape, .low = low, .high = high, .distinct = true}}, NoAttrs{}};
  };
  return {one({7}), one({3, 5}), one({}), one({0, 3}), one({2, 3, 4}), one({1, 17})};
}

std::vector<OpCase> backward_cases() {
  const auto two = [](Shape shape) {
    return OpCase{{{.shape = shape}, {.shape = shape, .low = 0.1, .high = 0.9}}, NoAttrs{}};
  };
  return {two({7}), two({3, 5}), two({}), two({0, 3}), two({2, 3, 4}), two({1, 17})};
}

Types infer_float(const InferCall& call) {
  rules::expect_float(call);
  return rules::infer_same(call);
}

// The parts that all unary ops share; a definition adds meaning and gradient.
OpDef unary(std::string name, std::string doc, double (*scalar)(const double*),
            std::function<TensorList(const GradCall&)> gradient, Saves saves, double low = -2, double high = 2) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {"x"},
          .infer = infer_float,
          .gradient = std::move(gradient),
          .shard = rules::shard_elementwise,
          .cases = [low, high] { return unary_cases(low, high); },
          .scalar = scalar,
          .saves = saves,
          .inplace = 0};
}

OpDef unary_backward(std::string name, std::string doc, double (*scalar)(const double*),
                     std::function<TensorList(const GradCall&)> gradient) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {"dy", "y"},
          .infer = rules::infer_broadcast,
          .gradient = std::move(gradient),
          .shard = rules::shard_elementwise,
          .cases = backward_cases,
          .scalar = scalar,
          .saves = kSavesInputs,
          .inplace = 0};
}

void register_backwards(OpRegistry& ops) {
  ops.add(unary_backward(
      "tanh_backward", "dy · (1 - y²)", [](const double* x) { return x[0] * (1 - x[1] * x[1]); },
      [](const GradCall& c) {
        return TensorList{tanh_backward(c.grads[0], c.in[1]), mul(mul(c.grads[0], c.in[0]), mul(c.in[1], -2.0))};
      }));
  ops.add(unary_backward(
      "sigmoid_backward", "dy · y · (1 - y)", [](const double* x) { return x[0] * x[1] * (1 - x[1]); },
      [](const GradCall& c) {
        return TensorList{sigmoid_backward(c.grads[0], c.in[1]),
                          mul(mul(c.grads[0], c.in[0]), add(mul(c.in[1], -2.0), 1.0))};
      }));
  ops.add(unary_backward(
      "relu_backward", "dy where y > 0, else 0", [](const double* x) { return x[1] > 0 ? x[0] : 0.0; },
      [](const GradCall& c) {
        return TensorList{relu_backward(c.grads[0], c.in[1]), Tensor()};
      }));
}

}  // namespace

void register_ops_unary(OpRegistry& ops) {
  OpDef negation = unary(
      "neg", "-x", [](const double* x) { return -x[0]; }, [](const GradCall& c) { return TensorList{neg(c.grads[0])}; },
      kSavesNothing);
  negation.infer = rules::infer_same;
  negation.shard = rules::shard_linear_elementwise;
  negation.integer = [](const std::int64_t* x) { return static_cast<std::int64_t>(-static_cast<std::uint64_t>(x[0])); };
  ops.add(negation);
  ops.add(unary(
      "exp", "eˣ", [](const double* x) { return std::exp(x[0]); },
      [](const GradCall& c) { return TensorList{mul(c.grads[0], c.out[0])}; }, kSavesOutputs));
  ops.add(unary(
      "log", "The natural logarithm.", [](const double* x) { return std::log(x[0]); },
      [](const GradCall& c) { return TensorList{div(c.grads[0], c.in[0])}; }, kSavesInputs, 0.2, 3));
  ops.add(unary(
      "sqrt", "The square root.", [](const double* x) { return std::sqrt(x[0]); },
      [](const GradCall& c) { return TensorList{div(mul(c.grads[0], 0.5), c.out[0])}; }, kSavesOutputs, 0.2, 3));
  ops.add(unary(
      "tanh", "The hyperbolic tangent.", [](const double* x) { return std::tanh(x[0]); },
      [](const GradCall& c) { return TensorList{tanh_backward(c.grads[0], c.out[0])}; }, kSavesOutputs));
  ops.add(unary(
      "sigmoid", "1 / (1 + e⁻ˣ)", [](const double* x) { return 1 / (1 + std::exp(-x[0])); },
      [](const GradCall& c) { return TensorList{sigmoid_backward(c.grads[0], c.out[0])}; }, kSavesOutputs));
  ops.add(unary(
      "relu", "x where it is positive, else 0.",
      [](const double* x) { return x[0] > 0 || std::isnan(x[0]) ? x[0] : 0.0; },
      [](const GradCall& c) { return TensorList{relu_backward(c.grads[0], c.out[0])}; }, kSavesOutputs));
  ops.add(unary(
      "softplus", "log(1 + eˣ), without overflow.",
      [](const double* x) { return std::max(x[0], 0.0) + std::log1p(std::exp(-std::abs(x[0]))); },
      [](const GradCall& c) { return TensorList{mul(c.grads[0], sigmoid(c.in[0]))}; }, kSavesInputs));
  register_backwards(ops);
}

}  // namespace starling
