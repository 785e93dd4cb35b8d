#include "starling/ops/api/loss.h"

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

namespace {

bool any_half(const Tensor& a, const Tensor& b) { return is_half(a.dtype()) || (b.defined() && is_half(b.dtype())); }

// Options with the weight widened like the operands.
LossOptions widened(LossOptions options) {
  options.weight = rules::widened(options.weight);
  return options;
}

DType with_weight(DType dtype, const LossOptions& options) {
  return options.weight.defined() ? promote(dtype, options.weight.dtype()) : dtype;
}

}  // namespace

Tensor op::reduce_loss(const Tensor& losses, const LossOptions& options, const char* who) {
  if (options.reduction != Reduction::none && any_half(losses, options.weight)) {
    return cast(op::reduce_loss(rules::widened(losses), widened(options), who), with_weight(losses.dtype(), options));
  }
  Tensor weighted = options.weight.defined() ? mul(losses, options.weight) : losses;
  if (options.reduction == Reduction::none) return weighted;
  if (options.reduction == Reduction::sum) return sum(weighted);
  check(weighted.numel() > 0, "[{}] expected at least one element, got {}", who, to_string(weighted.type()));
  if (!options.weight.defined()) return mul(sum(weighted), 1.0 / static_cast<double>(weighted.numel()));
  return div(sum(weighted), sum(broadcast_to(options.weight, weighted.shape())));
}

Tensor mse(const Tensor& prediction, const Tensor& target, const LossOptions& options) {
  if (options.reduction != Reduction::none && any_half(prediction, target)) {
    const DType dtype = with_weight(promote(prediction.dtype(), target.dtype()), options);
    return cast(mse(rules::widened(prediction), rules::widened(target), widened(options)), dtype);
  }
  if (options.weight.defined() || options.reduction == Reduction::none || !(prediction.type() == target.type())) {
    const Tensor difference = sub(prediction, target);
    return op::reduce_loss(mul(difference, difference), options, "mse");
  }
  Tensor total = apply1(named_op<"squared_error">(), {prediction, target});
  if (options.reduction == Reduction::sum) return total;
  check(prediction.numel() > 0, "[mse] expected at least one element, got {}", to_string(prediction.type()));
  return mul(total, 1.0 / static_cast<double>(prediction.numel()));
}

void register_ops_loss(OpRegistry& ops) {
  ops.add({.name = "squared_error",
           .doc = "Σ (a - b)²",
           .inputs = {"a", "b"},
           .outputs = {"sum"},
           .infer =
               [](const InferCall& call) {
                 rules::expect_float(call);
                 check(call.in[0] == call.in[1], "[squared_error] expected operands alike, got {} and {}",
                       to_string(call.in[0]), to_string(call.in[1]));
                 return Types{{call.in[0].dtype, {}}};
               },
           .gradient =
               [](const GradCall& c) {
                 const Tensor da = mul(sub(c.in[0], c.in[1]), mul(c.grads[0], 2.0));
                 return TensorList{c.needs(0) ? da : Tensor(), c.needs(1) ? neg(da) : Tensor()};
               },
           .shard =
               [](const ShardCall& call) {
                 const auto at = call.layouts[0].is_split() ? call.layouts[0] : call.layouts[1];
                 if (!at.is_split()) return rules::shard_replicated(call);
                 return ShardRule{{at, at}, {Layout::partial()}};
               },
           .cases =
               [] {
                 std::vector<OpCase> cases;
                 for (const Shape& shape :
                      {Shape{7}, Shape{3, 5}, Shape{0}, Shape{}, Shape{2, 3, 4}, Shape{40}, Shape{1}, Shape{5, 17}})
                   cases.push_back({{{.shape = shape}, {.shape = shape}}, op::NoAttrs{}});
                 return cases;
               },
           .saves = kSavesInputs,
           .cost = costs::each(3),
           .precision = Width::wide});
}

}  // namespace starling
