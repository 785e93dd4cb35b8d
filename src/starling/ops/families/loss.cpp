#include "starling/ops/api/loss.h"

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/softmax.h"
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
  const Tensor weighted = options.weight.defined() ? mul(losses, options.weight) : losses;
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
  const Tensor total = apply1(named_op<"squared_error">(), {prediction, target});
  if (options.reduction == Reduction::sum) return total;
  check(prediction.numel() > 0, "[mse] expected at least one element, got {}", to_string(prediction.type()));
  return mul(total, 1.0 / static_cast<double>(prediction.numel()));
}

namespace {

void check_rows(const InferCall& call) {
  rules::expect_float(call);
  rules::expect_rank(call, 0, 2);
  check(call.in[0].shape[1] > 0, "[{}] expected at least one class, got {}", call.op.name, to_string(call.in[0]));
  check(call.in[1].dtype == DType::i64 && call.in[1].shape == Shape{call.in[0].shape[0]},
        "[{}] expected labels i64[{}], got {}", call.op.name, call.in[0].shape[0], to_string(call.in[1]));
}

// (softmax(logits) - onehot) · scale, from the saved log-sum-exp.
Tensor cross_entropy_backward(const Tensor& logits, const Tensor& labels, const Tensor& lse, const Tensor& scale) {
  static const OpDef& op = find_op("cross_entropy_backward");
  return apply1(op, {logits, labels, lse, scale});
}

TensorList grad_cross_entropy(const GradCall& c) {
  TensorList out(2);
  const Tensor &logits = c.in[0], &labels = c.in[1];
  if (c.grads[0].defined()) out[0] = cross_entropy_backward(logits, labels, c.out[1], c.grads[0]);
  if (c.grads[1].defined()) {
    const Tensor p = softmax(logits);
    const Tensor through_lse = mul(p, reshape(c.grads[1], {logits.shape()[0], 1}));
    out[0] = out[0].defined() ? add(out[0], through_lse) : through_lse;
  }
  return out;
}

// The log-sum-exp is an independent operand, so only the softmax contributes to the logits' gradient here.
TensorList grad_cross_entropy_backward(const GradCall& c) {
  const Tensor &logits = c.in[0], &labels = c.in[1], &lse = c.in[2], &scale = c.in[3], &u = c.grads[0];
  TensorList out(4);
  const Tensor p = exp(sub(logits, reshape(lse, {lse.shape()[0], 1})));
  const Tensor up = mul(u, p);
  if (c.needs(0)) out[0] = mul(up, scale);
  if (c.needs(2)) out[2] = neg(mul(sum(up, {.axes = {1}}), scale));
  if (c.needs(3)) out[3] = sum(mul(u, cross_entropy_backward(logits, labels, lse, full({}, 1.0, scale.dtype()))));
  return out;
}

std::vector<OpCase> cross_entropy_cases(bool backward) {
  const auto rows = [&](std::int64_t n, std::int64_t classes) {
    OpCase c{{{.shape = {n, classes}},
              {.shape = {n}, .low = 0, .high = static_cast<double>(classes) - 0.01, .dtype = DType::i64}},
             op::NoAttrs{}};
    if (backward) {
      c.in.push_back({.shape = {n}, .low = 2, .high = 3});
      c.in.push_back({.shape = {}, .low = 0.5, .high = 1});
    }
    return c;
  };
  return {rows(4, 3), rows(1, 10), rows(9, 17), rows(0, 5), rows(3, 1), rows(2, 33), rows(20, 2), rows(6, 6)};
}

ShardRule shard_loss(const ShardCall& call) {
  if (!call.layouts[0].is_split(0) && !call.layouts[1].is_split(0)) return rules::shard_replicated(call);
  ShardRule rule{{Layout::split(0), Layout::split(0)}, {Layout::partial()}};
  if (call.out.size() == 2) rule.out.push_back(Layout::split(0));
  return rule;
}

ShardRule shard_loss_backward(const ShardCall& call) { return rules::shard_batch(call, 0b0111); }

void register_cross_entropy(OpRegistry& ops) {
  ops.add({.name = "cross_entropy_sum",
           .doc = "Σ over rows of -log softmax(logits)[label], and each row's log-sum-exp.",
           .inputs = {"logits", "labels"},
           .outputs = {"sum", "lse"},
           .infer =
               [](const InferCall& call) {
                 check_rows(call);
                 return Types{{call.in[0].dtype, {}}, {call.in[0].dtype, {call.in[0].shape[0]}}};
               },
           .gradient = grad_cross_entropy,
           .shard = shard_loss,
           .cases = [] { return cross_entropy_cases(false); },
           .saves = kSavesAll,
           .cost = costs::each(4),
           .precision = Width::wide});
  ops.add({.name = "cross_entropy_backward",
           .doc = "(exp(logits - lse) - onehot(labels)) · scale",
           .inputs = {"logits", "labels", "lse", "scale"},
           .outputs = {"dlogits"},
           .infer =
               [](const InferCall& call) {
                 check_rows(call);
                 const DType dtype = call.in[0].dtype;
                 const TensorType lse{dtype, {call.in[0].shape[0]}}, scale{dtype, {}};
                 check(call.in[2] == lse && call.in[3] == scale,
                       "[cross_entropy_backward] expected lse {} and scale {}, got {} and {}", to_string(lse),
                       to_string(scale), to_string(call.in[2]), to_string(call.in[3]));
                 return Types{call.in[0]};
               },
           .gradient = grad_cross_entropy_backward,
           .shard = shard_loss_backward,
           .cases = [] { return cross_entropy_cases(true); },
           .saves = kSavesInputs,
           .inplace = 0,
           .cost = costs::each(4),
           .precision = Width::wide});
}

}  // namespace

void register_ops_loss(OpRegistry& ops) {
  register_cross_entropy(ops);
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
