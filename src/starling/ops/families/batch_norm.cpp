#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/normalize.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/norm_view.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {
namespace {

// Global statistics: sums of pieces add up across ranks, so the mean and variance are those of the whole batch.
BatchNormResult batch_norm_global(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  using rules::widened;
  if (is_half(x.dtype())) {
    const BatchNormResult wide = batch_norm_global(widened(x), widened(weight), widened(bias), eps);
    return {cast(wide.y, x.dtype()), cast(wide.mean, x.dtype()), cast(wide.var, x.dtype())};
  }
  const NormView v = norm_view(named_op<"batch_norm_train">(), x.type(), op::EpsAttrs{eps});
  const double each = 1 / static_cast<double>(v.count());
  Shape axes{0};
  for (int d = 2; d < x.rank(); ++d) axes.push_back(d);
  const Tensor mean = mul(sum(x, {.axes = axes}), each);
  const Tensor var = mul(op::channel_squares(x, mean), each);
  return {batch_norm_infer(x, mean, var, weight, bias, {eps}), mean, var};
}

}  // namespace

BatchNormResult batch_norm(const Tensor& x, const Tensor& weight, const Tensor& bias, const BatchNormOptions& options) {
  if (options.global_statistics) return batch_norm_global(x, weight, bias, options.eps);
  const TensorList in = with_affine({x}, weight, bias, "batch_norm");
  TensorList out = apply(named_op<"batch_norm_train">(), {in.data(), in.size()}, op::EpsAttrs{options.eps});
  return {out[0], out[1], out[2]};
}

Tensor batch_norm_infer(const Tensor& x, const Tensor& mean, const Tensor& var, const Tensor& weight,
                        const Tensor& bias, const op::EpsAttrs& attrs) {
  const TensorList in = with_affine({x, mean, var}, weight, bias, "batch_norm_infer");
  return apply1(named_op<"batch_norm_infer">(), in, attrs);
}

Tensor op::channel_squares(const Tensor& x, const Tensor& mean) {
  return apply1(named_op<"channel_squares">(), {x, mean});
}

namespace {

TensorType channel_type(const InferCall& call, const TensorType& x) {
  rules::expect_float(call);
  check(x.shape.rank() >= 2, "[{}] expected x [n, c, ...], got {}", call.op.name, to_string(x));
  return {x.dtype, {x.shape[1]}};
}

void expect_channels(const InferCall& call, const TensorType& channels, std::size_t from) {
  for (std::size_t i = from; i < call.in.size(); ++i) {
    check(call.in[i] == channels, "[{}] expected {} {}, got {}", call.op.name, call.op.inputs[i], to_string(channels),
          to_string(call.in[i]));
  }
}

void expect_eps(const InferCall& call) {
  const double eps = call.attrs.as<op::EpsAttrs>().eps;
  check(eps >= 0 && eps < kInfinity, "[{}] expected eps of at least 0, got {}", call.op.name, eps);
}

Types infer_infer(const InferCall& call) {
  expect_eps(call);
  expect_channels(call, channel_type(call, call.in[0]), 1);
  return {call.in[0]};
}

Types infer_infer_backward(const InferCall& call) {
  expect_eps(call);
  const TensorType channels = channel_type(call, call.in[1]);
  check(call.in[0] == call.in[1], "[{}] expected dy {}, got {}", call.op.name, to_string(call.in[1]),
        to_string(call.in[0]));
  expect_channels(call, channels, 2);
  return {call.in[1], channels, channels};
}

Types infer_squares(const InferCall& call) {
  const TensorType channels = channel_type(call, call.in[0]);
  expect_channels(call, channels, 1);
  return {channels};
}

// Shapes with x as [n, c, inside] and channel parameters as [1, c, 1].
struct Channels {
  Shape x, of;
  explicit Channels(const Shape& shape) {
    std::int64_t inside = 1;
    for (int d = 2; d < shape.rank(); ++d) inside *= shape[d];
    x = {shape[0], shape[1], inside};
    of = {1, shape[1], 1};
  }
  Tensor spread(const Tensor& t) const { return reshape(t, of); }
};
Tensor over_channels(const Tensor& t) { return sum(t, {.axes = {0, 2}}); }

Tensor inverse_root(const Tensor& var, double eps) { return div(full({}, 1.0, var.dtype()), sqrt(add(var, eps))); }

// Decomposition into elementwise ops, which can be fused with following ones.
TensorList decompose_infer(std::span<const Tensor> in, const Attrs& attrs) {
  Shape channels = Shape::filled(in[0].rank() - 1, 1);
  channels[0] = in[0].shape()[1];
  const Tensor root = sqrt(add(in[2], attrs.as<op::EpsAttrs>().eps));
  const Tensor scale = div(in.size() > 3 ? in[3] : full({}, 1.0, root.dtype()), root);
  const Tensor y = mul(sub(in[0], reshape(in[1], channels)), reshape(scale, channels));
  return {in.size() > 4 ? add(y, reshape(in[4], channels)) : y};
}

TensorList grad_infer(const GradCall& c) {
  const Tensor &x = c.in[0], &mean = c.in[1], &var = c.in[2];
  const bool weighted = c.in.size() > 3;
  TensorList operands{c.grads[0], x, mean, var};
  if (weighted) operands.push_back(c.in[3]);
  const TensorList back = apply(named_op<"batch_norm_infer_backward">(), {operands.data(), operands.size()}, c.attrs);
  TensorList out(c.in.size());
  out[0] = back[0];
  if (c.needs(1) || c.needs(2)) {
    const Tensor r = inverse_root(var, c.attrs.as<op::EpsAttrs>().eps);
    const Tensor scale = weighted ? mul(r, c.in[3]) : r;
    if (c.needs(1)) out[1] = neg(mul(back[1], scale));
    if (c.needs(2)) out[2] = mul(mul(back[2], mul(scale, r)), -0.5);
  }
  if (weighted) out[3] = back[2];
  if (c.in.size() > 4) out[4] = back[1];
  return out;
}

// Second derivative of dx = dy w r, sum = Σ dy, dot = Σ dy h with h = (x - mean) r.
TensorList grad_infer_backward(const GradCall& c) {
  const Channels as(c.in[1].shape());
  const bool weighted = c.in.size() > 4;
  const Tensor dy = reshape(c.in[0], as.x), apart = sub(reshape(c.in[1], as.x), as.spread(c.in[2]));
  const Tensor root = inverse_root(c.in[3], c.attrs.as<op::EpsAttrs>().eps), r = as.spread(root);
  TensorList out(c.in.size());
  Tensor to_dy, to_r;
  const auto plus = [](Tensor& total, const Tensor& term) { total = total.defined() ? add(total, term) : term; };
  if (c.grads[0].defined()) {
    const Tensor u = reshape(c.grads[0], as.x), udy = over_channels(mul(u, dy));
    to_dy = mul(u, weighted ? mul(r, as.spread(c.in[4])) : r);
    to_r = weighted ? mul(udy, c.in[4]) : udy;
    if (weighted) out[4] = mul(udy, root);
  }
  if (c.grads[1].defined()) plus(to_dy, broadcast_to(as.spread(c.grads[1]), as.x));
  if (c.grads[2].defined()) {
    const Tensor q = as.spread(c.grads[2]);
    plus(to_dy, mul(mul(apart, r), q));
    const Tensor to_x = mul(dy, mul(q, r));
    out[1] = reshape(to_x, c.in[1].shape());
    out[2] = neg(over_channels(to_x));
    plus(to_r, mul(over_channels(mul(dy, apart)), c.grads[2]));
  }
  if (to_dy.defined()) out[0] = reshape(to_dy, c.in[0].shape());
  if (to_r.defined()) out[3] = mul(mul(to_r, mul(mul(root, root), root)), -0.5);
  return out;
}

TensorList grad_squares(const GradCall& c) {
  const Channels as(c.in[0].shape());
  const Tensor twice = mul(c.grads[0], 2.0), apart = sub(reshape(c.in[0], as.x), as.spread(c.in[1]));
  TensorList out(2);
  if (c.needs(0)) out[0] = reshape(mul(apart, as.spread(twice)), c.in[0].shape());
  if (c.needs(1)) out[1] = neg(mul(over_channels(apart), twice));
  return out;
}

// Each rank has statistics of its own rows; the returned ones are their average.
ShardRule shard_train(const ShardCall& call) {
  ShardRule rule = rules::shard_replicated(call);
  if (!call.layouts[0].is_split(0)) return rule;
  const auto average = Layout::partial(ReduceOp::mean);
  rule.in[0] = Layout::split(0);
  rule.out = {Layout::split(0), average, average};
  return rule;
}

// Each rank uses its own statistics.
ShardRule shard_train_backward(const ShardCall& call) {
  ShardRule rule = rules::shard_replicated(call);
  const auto average = Layout::partial(ReduceOp::mean);
  if (!call.layouts[1].is_split(0) || call.layouts[2] != average || call.layouts[3] != average) return rule;
  rule.in[0] = rule.in[1] = rule.out[0] = Layout::split(0);
  rule.in[2] = rule.in[3] = average;
  rule.out[1] = rule.out[2] = Layout::partial();
  return rule;
}

// All dimensions but the channels may be split; channel parameters are replicated, and sums over channels are partial.
ShardRule shard_all_but_channels(const ShardCall& call, int pictures) {
  ShardRule rule = rules::shard_replicated(call);
  Layout split = Layout::replicate();
  for (int i = pictures - 1; i >= 0; --i) {
    const Layout now = call.layouts[static_cast<std::size_t>(i)];
    if (now.is_split() && now.dim != 1) split = Layout::split(now.dim);
  }
  if (!split.is_split()) return rule;
  for (int i = 0; i < pictures; ++i) rule.in[static_cast<std::size_t>(i)] = split;
  const bool has_rows = call.out[0].shape.rank() > 1;
  for (std::size_t i = 0; i < rule.out.size(); ++i) rule.out[i] = i == 0 && has_rows ? split : Layout::partial();
  return rule;
}

const std::vector<std::pair<Shape, double>>& shapes() {
  static const std::vector<std::pair<Shape, double>> kShapes = {
      {{4, 3}, 1e-5},  {{2, 3, 4}, 1e-5}, {{2, 3, 2, 3}, 1e-2},    {{3, 2, 19}, 1e-5},
      {{5, 17}, 1e-5}, {{7, 1}, 0.1},     {{2, 2, 2, 2, 3}, 1e-5}, {{3, 0, 2}, 1e-5}};
  return kShapes;
}

// Sample calls: x of many shapes with 0, 1 and 2 affine operands.
std::vector<OpCase> channel_cases(bool backward, bool statistics, int most) {
  std::vector<OpCase> cases;
  for (std::size_t i = 0; i < shapes().size(); ++i) {
    const auto& [shape, eps] = shapes()[i];
    const Shape channels{shape[1]};
    OpCase c{{}, op::EpsAttrs{eps}};
    if (backward) c.in.push_back({.shape = shape});
    c.in.push_back({.shape = shape, .distinct = !backward});
    if (statistics) {
      c.in.push_back({.shape = channels, .low = -0.5, .high = 0.5});
      c.in.push_back({.shape = channels, .low = 0.5, .high = 1.5});
    }
    const int affine = static_cast<int>((i + 2) % static_cast<std::size_t>(most + 1));
    for (int k = 0; k < affine; ++k) c.in.push_back({.shape = channels, .low = 0.5, .high = 1.5});
    cases.push_back(c);
  }
  return cases;
}

void register_train(OpRegistry& ops) {
  OpDef train = norm_forward(
      "batch_norm_train", "(x - mean) / sqrt(var + eps) · weight + bias of every channel, and its mean and variance.",
      &attr_type<op::EpsAttrs>());
  train.shard = shard_train;
  train.needs_elements = true;
  train.cases = [] { return channel_cases(false, false, 2); };
  ops.add(std::move(train));
  OpDef backward = norm_backward("batch_norm_train_backward", &attr_type<op::EpsAttrs>());
  backward.shard = shard_train_backward;
  backward.needs_elements = true;
  backward.cases = [] { return channel_cases(true, true, 1); };
  ops.add(std::move(backward));
}

}  // namespace

void register_ops_batch_norm(OpRegistry& ops) {
  register_train(ops);
  ops.add({.name = "batch_norm_infer",
           .doc = "(x - mean) / sqrt(var + eps) · weight + bias of every channel, with given statistics.",
           .inputs = {"x", "mean", "var", "weight?", "bias?"},
           .attrs = &attr_type<op::EpsAttrs>(),
           .infer = infer_infer,
           .gradient = grad_infer,
           .decompose = decompose_infer,
           .shard = [](const ShardCall& call) { return shard_all_but_channels(call, 1); },
           .cases = [] { return channel_cases(false, true, 2); },
           .saves = kSavesInputs,
           .inplace = 0,
           .cost = costs::each(4),
           .precision = Width::wide});
  ops.add({.name = "batch_norm_infer_backward",
           .doc = "dx with given statistics, Σ dy and Σ dy · (x - mean) / sqrt(var + eps) of every channel.",
           .inputs = {"dy", "x", "mean", "var", "weight?"},
           .outputs = {"dx", "sum", "dot"},
           .attrs = &attr_type<op::EpsAttrs>(),
           .infer = infer_infer_backward,
           .gradient = grad_infer_backward,
           .shard = [](const ShardCall& call) { return shard_all_but_channels(call, 2); },
           .cases = [] { return channel_cases(true, true, 1); },
           .saves = kSavesInputs,
           .cost = costs::each(6),
           .precision = Width::wide});
  ops.add(
      {.name = "channel_squares",
       .doc = "Σ (x - mean)² of every channel.",
       .inputs = {"x", "mean"},
       .infer = infer_squares,
       .gradient = grad_squares,
       .shard = [](const ShardCall& call) { return shard_all_but_channels(call, 1); },
       .cases =
           [] {
             std::vector<OpCase> cases;
             for (const auto& [shape, eps] : shapes())
               cases.push_back({{{.shape = shape}, {.shape = {shape[1]}, .low = -0.5, .high = 0.5}}, op::NoAttrs{}});
             cases.push_back({{{.shape = {0, 2, 3}}, {.shape = {2}}}, op::NoAttrs{}});
             return cases;
           },
       .saves = kSavesInputs,
       .cost = costs::each(1),
       .precision = Width::wide});
}

}  // namespace starling
