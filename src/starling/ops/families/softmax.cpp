#include "starling/ops/api/softmax.h"

#include "starling/ops/api/binary.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {
namespace {

// Kernels work on the last axis: another one is moved to the end and back.
Tensor along(const OpDef& op, const Tensor& x, std::int64_t axis) {
  const int at = normalize_axis(axis, x.rank(), op.name.c_str());
  if (at == x.rank() - 1) return apply1(op, {x});
  Shape order;
  for (int i = 0; i < x.rank(); ++i) order.push_back(i);
  std::swap(order[at], order[x.rank() - 1]);
  return transpose(apply1(op, {transpose(x, order)}), order);
}

Types infer_rows(const InferCall& call) {
  rules::expect_float(call);
  check(call.in[0].shape.rank() >= 1, "[{}] expected rank of at least 1, got a scalar", call.op.name);
  for (const auto& type : call.in) {
    check(type == call.in[0], "[{}] expected operands alike, got {} and {}", call.op.name, to_string(call.in[0]),
          to_string(type));
  }
  return {call.in[0]};
}

// Any dimension but the last may be split.
ShardRule shard_rows(const ShardCall& call) {
  ShardRule rule = rules::shard_replicated(call);
  for (const auto& layout : call.layouts) {
    if (!layout.is_split() || layout.dim == call.in[0].shape.rank() - 1) continue;
    for (auto& in : rule.in) in = layout;
    rule.out[0] = layout;
    break;
  }
  return rule;
}

Tensor row_sum(const Tensor& x) { return sum(x, {.axes = {-1}, .keepdim = true}); }

std::vector<OpCase> rows_cases(int operands) {
  std::vector<OpCase> cases;
  for (const Shape& shape : {Shape{5}, Shape{3, 7}, Shape{2, 3, 4}, Shape{0, 3}, Shape{2, 33}, Shape{1}, Shape{4, 1},
                             Shape{2, 1, 2, 5}, Shape{3, 0}, Shape{1, 64}}) {
    cases.push_back(
        {std::vector<CaseInput>(static_cast<std::size_t>(operands), CaseInput{.shape = shape}), op::NoAttrs{}});
  }
  return cases;
}

// `each`: operations per element; forward they are largest, difference, exp, sum, quotient.
OpDef row_op(std::string name, std::string doc, std::vector<std::string> inputs,
             std::function<TensorList(const GradCall&)> gradient, Saves saves, double each) {
  const int operands = static_cast<int>(inputs.size());
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = std::move(inputs),
          .infer = infer_rows,
          .gradient = std::move(gradient),
          .shard = shard_rows,
          .cases = [operands] { return rows_cases(operands); },
          .saves = saves,
          .inplace = 0,
          .cost = costs::each(each),
          .precision = Width::wide};
}

// dx = y (dy - Σ dy y), and its own gradient by the product rule.
TensorList grad_softmax_backward(const GradCall& c) {
  static const OpDef& op = find_op("softmax_backward");
  const Tensor &u = c.grads[0], &dy = c.in[0], &y = c.in[1];
  const Tensor uy = row_sum(mul(u, y));
  return {apply1(op, {u, y}), sub(mul(u, sub(dy, row_sum(mul(dy, y)))), mul(uy, dy))};
}

// dx = dy - eˡ Σ dy with l the log-probabilities.
TensorList grad_log_softmax_backward(const GradCall& c) {
  const Tensor &u = c.grads[0], &dy = c.in[0];
  const Tensor p = exp(c.in[1]);
  return {sub(u, row_sum(mul(u, p))), neg(mul(mul(u, p), row_sum(dy)))};
}

}  // namespace

Tensor softmax(const Tensor& x, std::int64_t axis) { return along(named_op<"softmax">(), x, axis); }
Tensor log_softmax(const Tensor& x, std::int64_t axis) { return along(named_op<"log_softmax">(), x, axis); }

void register_ops_softmax(OpRegistry& ops) {
  ops.add(row_op(
      "softmax", "eˣ over its sum along the last axis.", {"x"},
      [](const GradCall& c) {
        static const OpDef& op = find_op("softmax_backward");
        return TensorList{apply1(op, {c.grads[0], c.out[0]})};
      },
      kSavesOutputs, 5));
  ops.add(row_op(
      "log_softmax", "The logarithm of softmax along the last axis.", {"x"},
      [](const GradCall& c) {
        static const OpDef& op = find_op("log_softmax_backward");
        return TensorList{apply1(op, {c.grads[0], c.out[0]})};
      },
      kSavesOutputs, 5));
  ops.add(row_op("softmax_backward", "y · (dy - Σ dy · y)", {"dy", "y"}, grad_softmax_backward, kSavesInputs, 4));
  ops.add(row_op("log_softmax_backward", "dy - eʸ · Σ dy", {"dy", "y"}, grad_log_softmax_backward, kSavesInputs, 4));
}

}  // namespace starling
