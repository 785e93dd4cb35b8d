#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/loss.h"
#include "starling/ops/api/matmul.h"
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

// Logits with classes last and all other dimensions as rows.
struct Rows {
  Tensor logits;  // [rows, classes]
  Tensor labels;  // [rows]
};

Rows rows_of(const Tensor& logits, const Tensor& labels) {
  const int rank = logits.rank();
  if (rank == 2) return {logits, labels};
  check(rank > 2 && labels.rank() == rank - 1,
        "[cross_entropy] expected logits [n, classes, d...], got {} and labels {}", to_string(logits.type()),
        to_string(labels.type()));
  Shape order = {0};
  for (int i = 2; i < rank; ++i) order.push_back(i);
  order.push_back(1);
  const auto classes = logits.shape()[1];
  const auto count = classes == 0 ? 0 : logits.numel() / classes;
  check(labels.numel() == count, "[cross_entropy] expected one label for each of {} rows, got {}", count,
        to_string(labels.type()));
  return {reshape(transpose(logits, order), {count, classes}), reshape(labels, {count})};
}

// Weight of each row: that of its class, 0 if the label is ignored. Undefined: all 1.
Tensor row_weights(const Rows& rows, const CrossEntropyOptions& options) {
  const Shape& shape = rows.logits.shape();
  if (options.weight.defined()) {
    check(options.weight.shape() == Shape{shape[1]}, "[cross_entropy] expected a weight [{}], got {}", shape[1],
          to_string(options.weight.type()));
    return op::label_pick(broadcast_to(options.weight, shape), rows.labels, options.ignore_index.value_or(-1));
  }
  if (!options.ignore_index) return {};
  return cast(not_equal(rows.labels, full({}, static_cast<double>(*options.ignore_index), DType::i64)),
              rows.logits.dtype());
}

// Labels with ignored ones, whose weight is 0, replaced by a valid class.
Tensor safe_labels(const Tensor& labels, const CrossEntropyOptions& options) {
  if (!options.ignore_index) return labels;
  const Tensor ignored = equal(labels, full({}, static_cast<double>(*options.ignore_index), DType::i64));
  return where(ignored, full({}, 0.0, DType::i64), labels);
}

// Label smoothing term of each row: the mean over classes of weight · (lse - x).
Tensor smooth_rows(const Rows& rows, const Tensor& lse, const CrossEntropyOptions& options) {
  if (!options.weight.defined()) return sub(lse, mean(rows.logits, {.axes = {1}}));
  const double share = 1.0 / static_cast<double>(rows.logits.shape()[1]);
  const Tensor smooth = sub(mul(lse, sum(options.weight)), matmul(rows.logits, options.weight));
  if (!options.ignore_index) return mul(smooth, share);
  const Tensor kept = not_equal(rows.labels, full({}, static_cast<double>(*options.ignore_index), DType::i64));
  return mul(mul(smooth, cast(kept, lse.dtype())), share);
}

Tensor with_labels(const Tensor& logits, const Tensor& labels, const CrossEntropyOptions& options) {
  const double eps = options.label_smoothing;
  const Rows rows = rows_of(logits, labels);
  const Tensor weights = row_weights(rows, options), safe = safe_labels(rows.labels, options);
  const TensorList out = weights.defined() ? apply(named_op<"cross_entropy_weighted">(), {rows.logits, safe, weights})
                                           : apply(named_op<"cross_entropy_sum">(), {rows.logits, safe});
  // Class weights are already in the smooth part; without them a row's weight is 1 unless ignored.
  const auto smooth = [&] {
    const Tensor each = smooth_rows(rows, out[1], options);
    return weights.defined() && !options.weight.defined() ? mul(each, weights) : each;
  };
  if (options.reduction == Reduction::none) {
    Tensor each = out[2];
    if (eps > 0) each = add(mul(each, 1 - eps), mul(smooth(), eps));
    return reshape(each, labels.shape());
  }
  Tensor total = out[0];
  if (eps > 0) total = add(mul(total, 1 - eps), mul(sum(smooth()), eps));
  if (options.reduction == Reduction::sum) return total;
  if (weights.defined()) return op::weighted_mean(total, sum(weights));
  if (rows.logits.shape()[0] == 0) fail("[cross_entropy] expected at least one row, got {}", to_string(logits.type()));
  return mul(total, 1.0 / static_cast<double>(rows.logits.shape()[0]));
}

Tensor with_probabilities(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options) {
  check(target.type() == logits.type() && logits.rank() >= 2,
        "[cross_entropy] expected labels i64 or probabilities like the logits [n, classes, d...], got {} and {}",
        to_string(logits.type()), to_string(target.type()));
  check(!options.ignore_index, "[cross_entropy] expected labels where some are ignored, got probabilities");
  const auto classes = logits.shape()[1];
  Tensor probabilities = target;
  if (options.label_smoothing > 0) {
    probabilities =
        add(mul(target, 1 - options.label_smoothing), options.label_smoothing / static_cast<double>(classes));
  }
  if (options.weight.defined()) {
    Shape column = Shape::filled(logits.rank() - 1, 1);
    column[0] = classes;
    probabilities = mul(probabilities, reshape(options.weight, column));
  }
  const Tensor each = neg(sum(mul(probabilities, log_softmax(logits, 1)), {.axes = {1}}));
  return op::reduce_loss(each, {.reduction = options.reduction}, "cross_entropy");
}

}  // namespace

Tensor cross_entropy(const Tensor& logits, const Tensor& target, const CrossEntropyOptions& options) {
  const double eps = options.label_smoothing;
  if (!(eps >= 0 && eps <= 1)) fail("[cross_entropy] expected label_smoothing in [0, 1], got {}", eps);
  if (is_half(logits.dtype()) && options.reduction != Reduction::none) {
    CrossEntropyOptions wide = options;
    wide.weight = rules::widened(options.weight);
    return cast(cross_entropy(rules::widened(logits), rules::widened(target), wide), logits.dtype());
  }
  return is_float(target.dtype()) ? with_probabilities(logits, target, options) : with_labels(logits, target, options);
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

Tensor weighted_backward(const Tensor& logits, const Tensor& labels, const Tensor& weights, const Tensor& lse,
                         const Tensor& scale) {
  return apply1(named_op<"cross_entropy_weighted_backward">(), {logits, labels, weights, lse, scale});
}

TensorList grad_sum(const GradCall& c) {
  TensorList out(2);
  const Tensor &logits = c.in[0], &labels = c.in[1];
  if (c.grads[0].defined()) out[0] = cross_entropy_backward(logits, labels, c.out[1], c.grads[0]);
  if (c.grads[1].defined()) {
    const Tensor p = softmax(logits);
    const Tensor through_lse = mul(p, reshape(c.grads[1], {logits.shape()[0], 1}));
    out[0] = out[0].defined() ? add(out[0], through_lse) : through_lse;
  }
  if (c.grads[2].defined()) {
    const Tensor through_rows = weighted_backward(logits, labels, c.grads[2], c.out[1], full({}, 1.0, logits.dtype()));
    out[0] = out[0].defined() ? add(out[0], through_rows) : through_rows;
  }
  return out;
}

// The log-sum-exp is an independent operand, so only the softmax contributes to the logits' gradient here.
TensorList grad_sum_backward(const GradCall& c) {
  const Tensor &logits = c.in[0], &labels = c.in[1], &lse = c.in[2], &scale = c.in[3], &u = c.grads[0];
  TensorList out(4);
  const Tensor p = exp(sub(logits, reshape(lse, {lse.shape()[0], 1})));
  const Tensor up = mul(u, p);
  if (c.needs(0)) out[0] = mul(up, scale);
  if (c.needs(2)) out[2] = neg(mul(sum(up, {.axes = {1}}), scale));
  if (c.needs(3)) out[3] = sum(mul(u, cross_entropy_backward(logits, labels, lse, full({}, 1.0, scale.dtype()))));
  return out;
}

std::vector<OpCase> sum_cases(bool backward) {
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

ShardRule shard_sum(const ShardCall& call) {
  if (!call.layouts[0].is_split(0) && !call.layouts[1].is_split(0)) return rules::shard_replicated(call);
  ShardRule rule{{Layout::split(0), Layout::split(0)}, {Layout::partial()}};
  while (rule.out.size() < call.out.size()) rule.out.push_back(Layout::split(0));
  return rule;
}

ShardRule shard_sum_backward(const ShardCall& call) { return rules::shard_batch(call, 0b0111); }

void check_weighted(const InferCall& call) {
  rules::expect_float(call);
  rules::expect_rank(call, 0, 2);
  const TensorType& x = call.in[0];
  check(x.shape[1] > 0, "[{}] expected at least one class, got {}", call.op.name, to_string(x));
  const TensorType labels{DType::i64, {x.shape[0]}}, weights{x.dtype, {x.shape[0]}};
  check(call.in[1] == labels && call.in[2] == weights, "[{}] expected labels {} and weights {}, got {} and {}",
        call.op.name, to_string(labels), to_string(weights), to_string(call.in[1]), to_string(call.in[2]));
}

Tensor column(const Tensor& x) { return reshape(x, {x.shape()[0], 1}); }

TensorList grad_weighted(const GradCall& c) {
  const Tensor &logits = c.in[0], &labels = c.in[1], &weights = c.in[2];
  TensorList out(3);
  const auto accumulate = [](Tensor& sum, const Tensor& more) { sum = sum.defined() ? add(sum, more) : more; };
  for (std::size_t i : {0, 2}) {  // the sum and its terms
    const Tensor& g = c.grads[i];
    if (!g.defined()) continue;
    const Tensor scale = i == 0 ? g : full({}, 1.0, logits.dtype()), each = i == 0 ? weights : mul(weights, g);
    if (c.needs(0)) accumulate(out[0], weighted_backward(logits, labels, each, c.out[1], scale));
    if (c.needs(2)) accumulate(out[2], mul(sub(c.out[1], op::label_pick(logits, labels)), g));
  }
  if (c.needs(0) && c.grads[1].defined()) {
    const Tensor through_lse = mul(softmax(logits), column(c.grads[1]));
    out[0] = out[0].defined() ? add(out[0], through_lse) : through_lse;
  }
  return out;
}

// The log-sum-exp is an independent operand, so only the softmax contributes to the logits' gradient here.
TensorList grad_weighted_backward(const GradCall& c) {
  const Tensor &logits = c.in[0], &labels = c.in[1], &weights = c.in[2], &lse = c.in[3], &scale = c.in[4];
  const Tensor& u = c.grads[0];
  TensorList out(5);
  const Tensor up = mul(u, exp(sub(logits, column(lse))));
  if (c.needs(0)) out[0] = mul(mul(up, column(weights)), scale);
  if (c.needs(3)) out[3] = neg(mul(mul(sum(up, {.axes = {1}}), weights), scale));
  if (!c.needs(2) && !c.needs(4)) return out;
  const Tensor each = sub(sum(up, {.axes = {1}}), op::label_pick(u, labels));
  if (c.needs(2)) out[2] = mul(each, scale);
  if (c.needs(4)) out[4] = sum(mul(each, weights));
  return out;
}

std::vector<OpCase> weighted_cases(bool backward) {
  std::vector<OpCase> cases;
  for (const auto& [n, classes] :
       {Pair{4, 3}, Pair{1, 10}, Pair{9, 17}, Pair{0, 5}, Pair{3, 1}, Pair{2, 33}, Pair{20, 2}, Pair{5, 6}}) {
    OpCase c{{{.shape = {n, classes}},
              {.shape = {n}, .low = 0, .high = static_cast<double>(classes) - 0.01, .dtype = DType::i64},
              {.shape = {n}, .low = 0.5, .high = 1.5}},
             op::NoAttrs{}};
    if (backward) {
      c.in.push_back({.shape = {n}, .low = 2, .high = 3});
      c.in.push_back({.shape = {}, .low = 0.5, .high = 1});
    }
    cases.push_back(c);
  }
  return cases;
}

ShardRule shard_weighted(const ShardCall& call) {
  ShardRule rule = rules::shard_batch(call, 0b111);
  if (rule.out[0].is_split()) rule.out[0] = Layout::partial();
  return rule;
}

}  // namespace

void register_ops_cross_entropy(OpRegistry& ops) {
  ops.add({.name = "cross_entropy_sum",
           .doc = "Σ over rows of -log softmax(logits)[label], each row's log-sum-exp, and the terms of the sum.",
           .inputs = {"logits", "labels"},
           .outputs = {"sum", "lse", "losses"},
           .infer =
               [](const InferCall& call) {
                 check_rows(call);
                 const TensorType row{call.in[0].dtype, {call.in[0].shape[0]}};
                 return Types{{row.dtype, {}}, row, row};
               },
           .gradient = grad_sum,
           .shard = shard_sum,
           .cases = [] { return sum_cases(false); },
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
           .gradient = grad_sum_backward,
           .shard = shard_sum_backward,
           .cases = [] { return sum_cases(true); },
           .saves = kSavesInputs,
           .inplace = 0,
           .cost = costs::each(4),
           .precision = Width::wide});
  ops.add(
      {.name = "cross_entropy_weighted",
       .doc = "Σ over rows of -weight · log softmax(logits)[label], each row's log-sum-exp, and the terms of the sum.",
       .inputs = {"logits", "labels", "weights"},
       .outputs = {"sum", "lse", "losses"},
       .infer =
           [](const InferCall& call) {
             check_weighted(call);
             const TensorType row{call.in[0].dtype, {call.in[0].shape[0]}};
             return Types{{row.dtype, {}}, row, row};
           },
       .gradient = grad_weighted,
       .shard = shard_weighted,
       .cases = [] { return weighted_cases(false); },
       .saves = kSavesAll,
       .cost = costs::each(5),
       .precision = Width::wide});
  ops.add({.name = "cross_entropy_weighted_backward",
           .doc = "(exp(logits - lse) - onehot(labels)) · weight · scale",
           .inputs = {"logits", "labels", "weights", "lse", "scale"},
           .outputs = {"dlogits"},
           .infer =
               [](const InferCall& call) {
                 check_weighted(call);
                 const DType dtype = call.in[0].dtype;
                 const TensorType lse{dtype, {call.in[0].shape[0]}}, scale{dtype, {}};
                 check(call.in[3] == lse && call.in[4] == scale,
                       "[cross_entropy_weighted_backward] expected lse {} and scale {}, got {} and {}", to_string(lse),
                       to_string(scale), to_string(call.in[3]), to_string(call.in[4]));
                 return Types{call.in[0]};
               },
           .gradient = grad_weighted_backward,
           .shard = [](const ShardCall& call) { return rules::shard_batch(call, 0b01111); },
           .cases = [] { return weighted_cases(true); },
           .saves = kSavesInputs,
           .inplace = 0,
           .cost = costs::each(5),
           .precision = Width::wide});
}

}  // namespace starling
