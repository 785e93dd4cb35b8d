#include "starling/ops/api/binary.h"

#include "starling/base/error.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/elementwise_def.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

using elementwise::number_like;
using elementwise::promoted;

Tensor add(const Tensor& a, const Tensor& b) { return promoted(named_op<"add">(), a, b); }
Tensor sub(const Tensor& a, const Tensor& b) { return promoted(named_op<"sub">(), a, b); }
Tensor mul(const Tensor& a, const Tensor& b) { return promoted(named_op<"mul">(), a, b); }
Tensor div(const Tensor& a, const Tensor& b) { return promoted(named_op<"div">(), a, b); }
Tensor maximum(const Tensor& a, const Tensor& b) { return promoted(named_op<"maximum">(), a, b); }
Tensor minimum(const Tensor& a, const Tensor& b) { return promoted(named_op<"minimum">(), a, b); }

Tensor add(const Tensor& a, double b) { return add(a, number_like(a, b)); }
Tensor sub(const Tensor& a, double b) { return sub(a, number_like(a, b)); }
Tensor sub(double a, const Tensor& b) { return sub(number_like(b, a), b); }
Tensor mul(const Tensor& a, double b) { return mul(a, number_like(a, b)); }
Tensor div(const Tensor& a, double b) { return div(a, number_like(a, b)); }
Tensor div(double a, const Tensor& b) { return div(number_like(b, a), b); }
Tensor maximum(const Tensor& a, double b) { return maximum(a, number_like(a, b)); }
Tensor minimum(const Tensor& a, double b) { return minimum(a, number_like(a, b)); }

namespace {

using elementwise::binary;
using elementwise::bits;
using elementwise::wrap;
using rules::sum_to;

std::int64_t divide(const std::int64_t* x) {
  if (x[1] == 0) fail("[div] expected a divisor other than 0, got {} / 0", x[0]);
  return x[1] == -1 ? wrap(-bits(x[0])) : x[0] / x[1];  // the most negative integer has no positive counterpart
}

TensorList grad_add(const GradCall& c) {
  return {c.needs(0) ? sum_to(c.grads[0], c.in[0].shape()) : Tensor(),
          c.needs(1) ? sum_to(c.grads[0], c.in[1].shape()) : Tensor()};
}

TensorList grad_sub(const GradCall& c) {
  return {c.needs(0) ? sum_to(c.grads[0], c.in[0].shape()) : Tensor(),
          c.needs(1) ? sum_to(neg(c.grads[0]), c.in[1].shape()) : Tensor()};
}

TensorList grad_mul(const GradCall& c) {
  return {c.needs(0) ? sum_to(mul(c.grads[0], c.in[1]), c.in[0].shape()) : Tensor(),
          c.needs(1) ? sum_to(mul(c.grads[0], c.in[0]), c.in[1].shape()) : Tensor()};
}

TensorList grad_div(const GradCall& c) {
  const Tensor da = div(c.grads[0], c.in[1]);
  return {c.needs(0) ? sum_to(da, c.in[0].shape()) : Tensor(),
          c.needs(1) ? sum_to(neg(div(mul(da, c.in[0]), c.in[1])), c.in[1].shape()) : Tensor()};
}

// Gradient of maximum and minimum; `first`: true where it goes to the first operand.
TensorList choose(const GradCall& c, const Tensor& first) {
  const Tensor none = scalar(0, c.grads[0].dtype());
  return {c.needs(0) ? sum_to(where(first, c.grads[0], none), c.in[0].shape()) : Tensor(),
          c.needs(1) ? sum_to(where(first, none, c.grads[0]), c.in[1].shape()) : Tensor()};
}

// Ties give the gradient to the first operand.
TensorList grad_maximum(const GradCall& c) { return choose(c, greater_equal(c.in[0], c.in[1])); }
TensorList grad_minimum(const GradCall& c) { return choose(c, less_equal(c.in[0], c.in[1])); }

void register_sums(OpRegistry& ops) {
  OpDef plus = binary(
      "add", "a + b", [](const double* x) { return x[0] + x[1]; }, grad_add, kSavesNothing);
  plus.commutative = true;
  plus.shard = rules::shard_additive;
  plus.integer = [](const std::int64_t* x) { return wrap(bits(x[0]) + bits(x[1])); };
  plus.broadcasts = true;
  ops.add(plus);
  OpDef minus = binary(
      "sub", "a - b", [](const double* x) { return x[0] - x[1]; }, grad_sub, kSavesNothing);
  minus.shard = rules::shard_additive;
  minus.integer = [](const std::int64_t* x) { return wrap(bits(x[0]) - bits(x[1])); };
  minus.broadcasts = true;
  ops.add(minus);
}

void register_products(OpRegistry& ops) {
  OpDef times = binary(
      "mul", "a · b", [](const double* x) { return x[0] * x[1]; }, grad_mul, kSavesInputs);
  times.commutative = true;
  times.shard = rules::shard_multiplicative;
  times.integer = [](const std::int64_t* x) { return wrap(bits(x[0]) * bits(x[1])); };
  times.broadcasts = true;
  ops.add(times);
  OpDef over = binary("div", "a / b; of integers, the quotient without its fraction.",
                      [](const double* x) { return x[0] / x[1]; }, grad_div, kSavesInputs, {0.3, 2.3});
  over.shard = rules::shard_multiplicative;
  over.infer = rules::infer_broadcast_ordered;
  over.integer = divide;
  over.broadcasts = true;
  ops.add(over);
}

}  // namespace

void register_ops_binary(OpRegistry& ops) {
  register_sums(ops);
  register_products(ops);
  OpDef larger = binary(
      "maximum", "The larger of a and b; NaN where either is.",
      [](const double* x) { return x[0] >= x[1] || x[0] != x[0] ? x[0] : x[1]; }, grad_maximum, kSavesInputs);
  larger.commutative = true;
  larger.infer = rules::infer_broadcast_ordered;
  larger.integer = [](const std::int64_t* x) { return x[0] >= x[1] ? x[0] : x[1]; };
  larger.broadcasts = true;
  ops.add(larger);
  OpDef smaller = binary(
      "minimum", "The smaller of a and b; NaN where either is.",
      [](const double* x) { return x[0] <= x[1] || x[0] != x[0] ? x[0] : x[1]; }, grad_minimum, kSavesInputs);
  smaller.commutative = true;
  smaller.infer = rules::infer_broadcast_ordered;
  smaller.integer = [](const std::int64_t* x) { return x[0] <= x[1] ? x[0] : x[1]; };
  smaller.broadcasts = true;
  ops.add(smaller);
}

}  // namespace starling
