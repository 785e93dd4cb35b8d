#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/loss.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/nll_attrs.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"
#include "starling/ops/def/scopes/near_scope.h"

namespace starling {

Tensor op::label_pick(const Tensor& x, const Tensor& labels, std::int64_t ignore_index) {
  return apply1(named_op<"label_pick">(), {x, labels}, op::NllAttrs{ignore_index});
}
Tensor op::label_place(const Tensor& y, const Tensor& labels, std::int64_t classes, std::int64_t ignore_index) {
  return apply1(named_op<"label_place">(), {y, labels}, op::LabelPlaceAttrs{classes, ignore_index});
}

// A division by 0 is not recorded: its gradient would be NaN.
Tensor op::weighted_mean(const Tensor& total, const Tensor& weight) {
  const Tensor none = equal(weight, 0.0), of_none = no_grad([&] { return div(total, weight); });
  return where(none, of_none, div(total, where(none, full({}, 1.0, weight.dtype()), weight)));
}

namespace {

// Class weights broadcast over x [n, classes, d...].
Tensor spread_classes(const Tensor& weight, const Shape& shape) {
  Shape column = Shape::filled(shape.rank() - 1, 1);
  column[0] = weight.shape()[0];
  return broadcast_to(reshape(weight, column), shape);
}

// Weight of every label, 0 if ignored.
Tensor label_weights(const Tensor& weight, const Tensor& x, const Tensor& labels, std::int64_t ignore_index) {
  const NearScope near(x);
  const Tensor classes = weight.defined() ? weight : full({x.shape()[1]}, 1.0, x.dtype());
  return op::label_pick(spread_classes(classes, x.shape()), labels, ignore_index);
}

}  // namespace

Tensor nll(const Tensor& log_probs, const Tensor& labels, const NllOptions& options) {
  if (options.reduction == Reduction::none) {
    const Tensor weights = label_weights(options.weight, log_probs, labels, options.ignore_index);
    return neg(mul(op::label_pick(log_probs, labels, options.ignore_index), weights));
  }
  if (log_probs.defined() && is_half(log_probs.dtype()) && options.reduction == Reduction::mean) {
    NllOptions wide = options;
    wide.weight = rules::widened(options.weight);
    return cast(nll(rules::widened(log_probs), labels, wide), log_probs.dtype());
  }
  const OpDef& op = named_op<"nll">();
  const op::NllAttrs attrs{options.ignore_index};
  const TensorList out = options.weight.defined() ? apply(op, {log_probs, labels, options.weight}, attrs)
                                                  : apply(op, {log_probs, labels}, attrs);
  return options.reduction == Reduction::sum ? out[0] : op::weighted_mean(out[0], out[1]);
}

namespace {

// Shape of labels: that of x without its second dimension.
Shape label_shape(const Shape& x) {
  Shape shape = x;
  shape.erase(1);
  return shape;
}

void check_labels(const InferCall& call) {
  const TensorType& x = call.in[0];
  rules::expect_float(call);
  check(x.shape.rank() >= 2 && x.shape[1] > 0, "[{}] expected {} [n, classes, d...], got {}", call.op.name,
        call.op.inputs[0], to_string(x));
  const TensorType labels{DType::i64, label_shape(x.shape)};
  check(call.in[1] == labels, "[{}] expected labels {}, got {}", call.op.name, to_string(labels),
        to_string(call.in[1]));
}

Types infer_nll(const InferCall& call) {
  check_labels(call);
  if (call.in.size() == 3) {
    const TensorType weight{call.in[0].dtype, {call.in[0].shape[1]}};
    check(call.in[2] == weight, "[nll] expected a weight {}, got {}", to_string(weight), to_string(call.in[2]));
  }
  return {TensorType{call.in[0].dtype, {}}, TensorType{call.in[0].dtype, {}}};
}

TensorList grad_nll(const GradCall& c) {
  const Tensor &x = c.in[0], &labels = c.in[1];
  const auto ignored = c.attrs.as<op::NllAttrs>().ignore_index;
  const auto classes = x.shape()[1];
  TensorList out(c.in.size());
  if (c.needs(0) && c.grads[0].defined()) {
    const Tensor weights = label_weights(c.in.size() == 3 ? c.in[2] : Tensor(), x, labels, ignored);
    out[0] = op::label_place(mul(weights, neg(c.grads[0])), labels, classes, ignored);
  }
  if (c.in.size() == 3 && c.needs(2)) {
    // Contribution of one unit of weight at each label to both sums.
    Tensor each;
    if (c.grads[0].defined()) each = mul(op::label_pick(x, labels, ignored), neg(c.grads[0]));
    if (c.grads[1].defined()) each = each.defined() ? add(each, c.grads[1]) : broadcast_to(c.grads[1], labels.shape());
    const Tensor placed = op::label_place(each, labels, classes, ignored);
    Shape axes = {0};
    for (int i = 2; i < placed.rank(); ++i) axes.push_back(i);
    out[2] = sum(placed, {.axes = axes});
  }
  return out;
}

ShardRule shard_nll(const ShardCall& call) {
  ShardRule rule = rules::shard_replicated(call);
  if (!call.layouts[0].is_split(0) && !call.layouts[1].is_split(0)) return rule;
  rule.in[0] = rule.in[1] = Layout::split(0);
  for (auto& out : rule.out) out = Layout::partial();
  return rule;
}

ShardRule shard_rows(const ShardCall& call) { return rules::shard_batch(call, 0b11); }

Types infer_pick(const InferCall& call) {
  check_labels(call);
  return {TensorType{call.in[0].dtype, label_shape(call.in[0].shape)}};
}

Types infer_place(const InferCall& call) {
  rules::expect_float(call);
  const auto classes = call.attrs.as<op::LabelPlaceAttrs>().classes;
  check(classes > 0, "[label_place] expected at least one class, got {}", classes);
  Shape shape = call.in[0].shape;
  check(shape.rank() >= 1 && shape.rank() < kMaxRank && call.in[1] == TensorType{DType::i64, shape},
        "[label_place] expected y [n, d...] and labels i64 alike, got {} and {}", to_string(call.in[0]),
        to_string(call.in[1]));
  shape.insert(1, classes);
  return {TensorType{call.in[0].dtype, shape}};
}

OpCase labelled(const Shape& x, const Attrs& attrs, bool ignores, bool weighted = false) {
  const double classes = static_cast<double>(x[1]);
  OpCase c{{{.shape = x},
            {.shape = label_shape(x), .low = ignores ? -1.0 : 0.0, .high = classes - 0.01, .dtype = DType::i64}},
           attrs};
  if (weighted) c.in.push_back({.shape = {x[1]}, .low = 0.5, .high = 1.5});
  return c;
}

std::vector<OpCase> label_cases(bool with_weights) {
  std::vector<OpCase> cases = {
      labelled({4, 3}, op::NllAttrs{}, false),       labelled({1, 10}, op::NllAttrs{}, false),
      labelled({9, 17}, op::NllAttrs{-1}, true),     labelled({2, 3, 5}, op::NllAttrs{-1}, true),
      labelled({2, 4, 2, 3}, op::NllAttrs{}, false), labelled({0, 5}, op::NllAttrs{}, false),
      labelled({3, 1}, op::NllAttrs{}, false),       labelled({2, 3, 0}, op::NllAttrs{}, false)};
  if (!with_weights) return cases;
  cases.push_back(labelled({6, 4}, op::NllAttrs{}, false, true));
  cases.push_back(labelled({5, 3}, op::NllAttrs{2}, false, true));
  cases.push_back(labelled({2, 3, 4}, op::NllAttrs{-1}, true, true));
  return cases;
}

std::vector<OpCase> place_cases() {
  std::vector<OpCase> cases;
  for (const OpCase& pick : label_cases(false)) {
    const Shape& x = pick.in[0].shape;
    cases.push_back({{{.shape = label_shape(x)}, pick.in[1]},
                     op::LabelPlaceAttrs{x[1], pick.attrs.as<op::NllAttrs>().ignore_index}});
  }
  return cases;
}

}  // namespace

void register_ops_nll(OpRegistry& ops) {
  ops.add({.name = "nll",
           .doc = "Σ of -weight · log_probs at the labels, and Σ of the labels' weights.",
           .inputs = {"log_probs", "labels", "weight?"},
           .outputs = {"sum", "weight"},
           .attrs = &attr_type<op::NllAttrs>(),
           .infer = infer_nll,
           .gradient = grad_nll,
           .shard = shard_nll,
           .cases = [] { return label_cases(true); },
           .saves = kSavesInputs,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "label_pick",
           .doc = "x at the labels along its second dimension, 0 where a label is ignored.",
           .inputs = {"x", "labels"},
           .attrs = &attr_type<op::NllAttrs>(),
           .infer = infer_pick,
           .gradient =
               [](const GradCall& c) {
                 return TensorList{
                     op::label_place(c.grads[0], c.in[1], c.in[0].shape()[1], c.attrs.as<op::NllAttrs>().ignore_index),
                     Tensor()};
               },
           .shard = shard_rows,
           .cases = [] { return label_cases(false); },
           .saves = kSavesInputs,
           .cost = costs::moves(),
           .precision = Width::wide});
  ops.add({.name = "label_place",
           .doc = "y at the labels along a new second dimension, 0 elsewhere.",
           .inputs = {"y", "labels"},
           .outputs = {"x"},
           .attrs = &attr_type<op::LabelPlaceAttrs>(),
           .infer = infer_place,
           .gradient =
               [](const GradCall& c) {
                 return TensorList{op::label_pick(c.grads[0], c.in[1], c.attrs.as<op::LabelPlaceAttrs>().ignore_index),
                                   Tensor()};
               },
           .shard = shard_rows,
           .cases = place_cases,
           .saves = kSavesInputs,
           .cost = costs::moves(),
           .precision = Width::wide});
}

}  // namespace starling
