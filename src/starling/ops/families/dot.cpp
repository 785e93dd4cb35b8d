#include "starling/ops/api/dot.h"

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor dot(const Tensor& a, const Tensor& b) { return apply1(named_op<"dot">(), {a, b}); }
Tensor outer(const Tensor& a, const Tensor& b) { return apply1(named_op<"outer">(), {a, b}); }

namespace {

Types infer_dot(const InferCall& call) {
  rules::expect_float(call);
  check(call.in[0] == call.in[1] && call.in[0].shape.rank() >= 1,
        "[dot] expected two operands alike of rank 1 or more, got {} and {}", to_string(call.in[0]),
        to_string(call.in[1]));
  Shape shape = call.in[0].shape;
  shape.erase(shape.rank() - 1);
  return {TensorType{call.in[0].dtype, shape}};
}

TensorList grad_dot(const GradCall& c) {
  Shape column = c.grads[0].shape();
  column.push_back(1);
  const Tensor g = reshape(c.grads[0], column);
  return {c.needs(0) ? mul(g, c.in[1]) : Tensor(), c.needs(1) ? mul(g, c.in[0]) : Tensor()};
}

// Splitting the summed dimension gives partial results; splitting another one is kept.
ShardRule shard_dot(const ShardCall& call) {
  const Layout at = call.layouts[0].is_split() ? call.layouts[0] : call.layouts[1];
  if (!at.is_split()) return rules::shard_replicated(call);
  const bool summed = at.dim == call.in[0].shape.rank() - 1;
  return {{at, at}, {summed ? Layout::partial() : at}};
}

std::vector<OpCase> dot_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape :
       {Shape{1}, Shape{7}, Shape{90}, Shape{3, 5}, Shape{2, 3, 19}, Shape{0}, Shape{0, 4}, Shape{4, 0}, Shape{70, 2}})
    cases.push_back({{{.shape = shape}, {.shape = shape}}, op::NoAttrs{}});
  return cases;
}

Types infer_outer(const InferCall& call) {
  rules::expect_float(call);
  rules::expect_same_dtype(call);
  rules::expect_rank(call, 0, 1);
  rules::expect_rank(call, 1, 1);
  return {TensorType{call.in[0].dtype, {call.in[0].shape[0], call.in[1].shape[0]}}};
}

TensorList grad_outer(const GradCall& c) {
  TensorList out(2);
  if (c.needs(0)) out[0] = matmul(c.grads[0], c.in[1]);
  if (c.needs(1)) out[1] = matmul(c.in[0], c.grads[0]);
  return out;
}

ShardRule shard_outer(const ShardCall& call) {
  ShardRule rule = rules::shard_replicated(call);
  const std::size_t cut = call.layouts[0].is_split() ? 0 : 1;
  if (!call.layouts[cut].is_split()) return rule;
  rule.in[cut] = Layout::split(0);
  rule.out[0] = Layout::split(static_cast<int>(cut));
  return rule;
}

std::vector<OpCase> outer_cases() {
  std::vector<OpCase> cases;
  for (const auto& [m, n] :
       {Pair{3, 4}, Pair{1, 1}, Pair{5, 33}, Pair{20, 1}, Pair{1, 20}, Pair{0, 3}, Pair{3, 0}, Pair{17, 11}})
    cases.push_back({{{.shape = {m}}, {.shape = {n}}}, op::NoAttrs{}});
  return cases;
}

double flops_of_dot(const CostCall& call) { return 2 * costs::elements(call.in[0]); }

}  // namespace

void register_ops_dot(OpRegistry& ops) {
  ops.add({.name = "dot",
           .doc = "Σ a · b over the last dimension.",
           .inputs = {"a", "b"},
           .infer = infer_dot,
           .gradient = grad_dot,
           .shard = shard_dot,
           .cases = dot_cases,
           .saves = kSavesInputs,
           .commutative = true,
           .cost = {flops_of_dot},
           .precision = Width::narrow});
  ops.add({.name = "outer",
           .doc = "Every product of an element of a and one of b, [m, n].",
           .inputs = {"a", "b"},
           .infer = infer_outer,
           .gradient = grad_outer,
           .shard = shard_outer,
           .cases = outer_cases,
           .saves = kSavesInputs,
           .cost = costs::each(1),
           .precision = Width::narrow});
}

}  // namespace starling
