#include "starling/ops/api/unary.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "starling/ops/api/binary.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/elementwise_def.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor neg(const Tensor& x) { return apply1(named_op<"neg">(), {x}); }
Tensor abs(const Tensor& x) { return apply1(named_op<"abs">(), {x}); }
Tensor sign(const Tensor& x) { return apply1(named_op<"sign">(), {x}); }
Tensor square(const Tensor& x) { return apply1(named_op<"square">(), {x}); }
Tensor reciprocal(const Tensor& x) { return apply1(named_op<"reciprocal">(), {x}); }
Tensor sqrt(const Tensor& x) { return apply1(named_op<"sqrt">(), {x}); }
Tensor rsqrt(const Tensor& x) { return apply1(named_op<"rsqrt">(), {x}); }
Tensor exp(const Tensor& x) { return apply1(named_op<"exp">(), {x}); }
Tensor expm1(const Tensor& x) { return apply1(named_op<"expm1">(), {x}); }
Tensor log(const Tensor& x) { return apply1(named_op<"log">(), {x}); }
Tensor log1p(const Tensor& x) { return apply1(named_op<"log1p">(), {x}); }
Tensor log2(const Tensor& x) { return apply1(named_op<"log2">(), {x}); }
Tensor erf(const Tensor& x) { return apply1(named_op<"erf">(), {x}); }

namespace {

using elementwise::bits;
using elementwise::unary;
using elementwise::wide;
using elementwise::wrap;

Types infer_signed(const InferCall& call) {
  rules::expect_ordered(call);
  return elementwise::infer_number(call);
}

void register_arithmetic(OpRegistry& ops) {
  OpDef negation = unary(
      "neg", "-x", [](const double* x) { return -x[0]; }, [](const GradCall& c) { return TensorList{neg(c.grads[0])}; },
      kSavesNothing);
  negation.infer = rules::infer_same;
  negation.shard = rules::shard_linear_elementwise;
  negation.integer = [](const std::int64_t* x) { return wrap(-bits(x[0])); };
  ops.add(negation);
  OpDef magnitude = unary(
      "abs", "|x|", [](const double* x) { return std::abs(x[0]); },
      [](const GradCall& c) { return TensorList{mul(c.grads[0], sign(c.in[0]))}; }, kSavesInputs);
  magnitude.infer = infer_signed;
  magnitude.integer = [](const std::int64_t* x) { return x[0] < 0 ? wrap(-bits(x[0])) : x[0]; };
  ops.add(magnitude);
  OpDef signum = unary(
      "sign", "-1, 0 or 1; zeros and NaN stay as they are.",
      [](const double* x) { return x[0] > 0   ? 1.0
                                   : x[0] < 0 ? -1.0
                                              : x[0]; }, nullptr, kSavesNothing);
  signum.infer = infer_signed;
  signum.integer = [](const std::int64_t* x) { return std::int64_t{x[0] > 0} - std::int64_t{x[0] < 0}; };
  ops.add(signum);
  OpDef squared = wide(unary(
      "square", "x²", [](const double* x) { return x[0] * x[0]; },
      [](const GradCall& c) { return TensorList{mul(mul(c.grads[0], 2.0), c.in[0])}; }, kSavesInputs));
  squared.infer = elementwise::infer_number;
  squared.integer = [](const std::int64_t* x) { return wrap(bits(x[0]) * bits(x[0])); };
  ops.add(squared);
  ops.add(wide(unary(
      "reciprocal", "1 / x", [](const double* x) { return 1 / x[0]; },
      [](const GradCall& c) { return TensorList{neg(mul(c.grads[0], square(c.out[0])))}; }, kSavesOutputs, {0.3, 3})));
}

void register_roots(OpRegistry& ops) {
  ops.add(unary(
      "sqrt", "The square root.", [](const double* x) { return std::sqrt(x[0]); },
      [](const GradCall& c) { return TensorList{div(mul(c.grads[0], 0.5), c.out[0])}; }, kSavesOutputs, {0.2, 3}));
  ops.add(wide(unary(
      "rsqrt", "1 / √x", [](const double* x) { return 1 / std::sqrt(x[0]); },
      [](const GradCall& c) { return TensorList{mul(mul(c.grads[0], -0.5), mul(c.out[0], square(c.out[0])))}; },
      kSavesOutputs, {0.3, 3})));
}

void register_exponentials(OpRegistry& ops) {
  ops.add(wide(unary(
      "exp", "eˣ", [](const double* x) { return std::exp(x[0]); },
      [](const GradCall& c) { return TensorList{mul(c.grads[0], c.out[0])}; }, kSavesOutputs)));
  ops.add(wide(unary(
      "expm1", "eˣ - 1, precise near 0.", [](const double* x) { return std::expm1(x[0]); },
      [](const GradCall& c) { return TensorList{mul(c.grads[0], add(c.out[0], 1.0))}; }, kSavesOutputs)));
  ops.add(wide(unary(
      "log", "The natural logarithm.", [](const double* x) { return std::log(x[0]); },
      [](const GradCall& c) { return TensorList{div(c.grads[0], c.in[0])}; }, kSavesInputs, {0.2, 3})));
  ops.add(wide(unary(
      "log1p", "log(1 + x), precise near 0.", [](const double* x) { return std::log1p(x[0]); },
      [](const GradCall& c) { return TensorList{div(c.grads[0], add(c.in[0], 1.0))}; }, kSavesInputs, {-0.7, 3})));
  ops.add(wide(unary(
      "log2", "The logarithm to base 2.", [](const double* x) { return std::log2(x[0]); },
      [](const GradCall& c) { return TensorList{div(mul(c.grads[0], std::numbers::log2e), c.in[0])}; }, kSavesInputs,
      {0.2, 3})));
  ops.add(wide(unary(
      "erf", "The error function.", [](const double* x) { return std::erf(x[0]); },
      [](const GradCall& c) {
        const double slope = 2 * std::numbers::inv_sqrtpi;
        return TensorList{mul(mul(c.grads[0], slope), exp(neg(square(c.in[0]))))};
      },
      kSavesInputs, {-3, 3})));
}

}  // namespace

void register_ops_unary(OpRegistry& ops) {
  register_arithmetic(ops);
  register_roots(ops);
  register_exponentials(ops);
}

}  // namespace starling
