#include "starling/ops/def/attrs/unbiased_variance.h"

#include "starling/base/error.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor unbiased_variance(const Tensor& x, const Tensor& var) {
  return apply1(named_op<"unbiased_variance">(), {x, var});
}

namespace {

Types infer_unbiased(const InferCall& call) {
  rules::expect_float(call);
  const TensorType &x = call.in[0], &var = call.in[1];
  check(x.shape.rank() >= 2, "[unbiased_variance] expected x [n, c, ...], got {}", to_string(x));
  const TensorType channels{x.dtype, {x.shape[1]}};
  check(var == channels, "[unbiased_variance] expected var {}, got {}", to_string(channels), to_string(var));
  return {var};
}

// Per-rank variances are corrected by the rank's own count.
ShardRule shard_unbiased(const ShardCall& call) {
  ShardRule rule = rules::shard_replicated(call);
  const auto average = Layout::partial(ReduceOp::mean);
  if (!call.layouts[0].is_split(0) || call.layouts[1] != average) return rule;
  rule.in = {Layout::split(0), average};
  rule.out[0] = average;
  return rule;
}

std::vector<OpCase> unbiased_cases() {
  std::vector<OpCase> cases;
  for (const Shape& shape : {Shape{4, 3}, Shape{2, 3, 4}, Shape{2, 3, 2, 3}, Shape{1, 2}, Shape{5, 17}, Shape{7, 1},
                             Shape{2, 2, 2, 2, 3}, Shape{3, 0, 2}, Shape{1, 4, 2}}) {
    cases.push_back({{{.shape = shape}, {.shape = {shape[1]}, .low = 0.5, .high = 1.5}}, op::NoAttrs{}});
  }
  return cases;
}

}  // namespace

void register_ops_unbiased_variance(OpRegistry& ops) {
  ops.add({.name = "unbiased_variance",
           .doc = "Biased variances of the channels of x times m / (m - 1), m being their number of elements.",
           .inputs = {"x", "var"},
           .infer = infer_unbiased,
           .gradient =
               [](const GradCall& c) {
                 return TensorList{Tensor(), c.needs(1) ? unbiased_variance(c.in[0], c.grads[0]) : Tensor()};
               },
           .shard = shard_unbiased,
           .cases = unbiased_cases,
           .saves = kSavesInputs,
           .plain = true,
           .cost = costs::each(1),
           .precision = Width::wide});
}

}  // namespace starling
