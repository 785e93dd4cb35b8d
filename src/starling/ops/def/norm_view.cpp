#include "starling/ops/def/norm_view.h"

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/normalize.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/unary.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {
namespace {

void view_channels(NormView& v, const Shape& x) {
  std::int64_t inside = 1;
  for (int d = 2; d < x.rank(); ++d) inside *= x[d];
  v.x = {x[0], x[1], inside};
  v.stats = v.weight = {1, x[1], 1};
  v.shared_stats = v.shared_weight = {0, 2};
  v.stats_type = v.weight_type = {x[1]};
}

void view_groups(NormView& v, const Shape& x, std::int64_t groups, const std::string& who) {
  check(groups >= 1 && x[1] % groups == 0, "[{}] expected groups that divide {} channels, got {}", who, x[1], groups);
  std::int64_t inside = 1;
  for (int d = 2; d < x.rank(); ++d) inside *= x[d];
  v.x = {x[0], groups, x[1] / groups, inside};
  v.stats = {x[0], groups, 1, 1};
  v.weight = {1, groups, x[1] / groups, 1};
  v.shared_stats = {2, 3};
  v.shared_weight = {0, 3};
  v.stats_type = {x[0], groups};
  v.weight_type = {x[1]};
}

void view_rows(NormView& v, const Shape& x, std::int64_t dims, const std::string& who) {
  check(dims >= 1 && dims <= x.rank(), "[{}] expected dims between 1 and {}, got {}", who, x.rank(), dims);
  const int outer = x.rank() - static_cast<int>(dims);
  std::int64_t rows = 1, inside = 1;
  for (int d = 0; d < x.rank(); ++d) {
    (d < outer ? rows : inside) *= x[d];
    (d < outer ? v.stats_type : v.weight_type).push_back(x[d]);
  }
  v.x = {rows, inside};
  v.stats = {rows, 1};
  v.weight = {1, inside};
  v.shared_stats = {1};
  v.shared_weight = {0};
}

bool is(const OpDef& op, const char* family) { return op.name.rfind(family, 0) == 0; }

}  // namespace

std::int64_t NormView::count() const {
  std::int64_t n = 1;
  for (auto d : shared_stats) n *= x[static_cast<int>(d)];
  return n;
}

NormView norm_view(const OpDef& op, const TensorType& x, const Attrs& attrs) {
  NormView v;
  check(is_float(x.dtype), "[{}] expected floats, got {}", op.name, to_string(x));
  if (is(op, "layer_norm") || is(op, "rms_norm")) {
    const auto& a = attrs.as<op::LayerNormAttrs>();
    v.eps = a.eps;
    v.centred = is(op, "layer_norm");
    view_rows(v, x.shape, a.dims, op.name);
  } else {
    check(x.shape.rank() >= 2, "[{}] expected x [n, c, ...], got {}", op.name, to_string(x));
    v.eps = is(op, "group_norm") ? attrs.as<op::GroupNormAttrs>().eps : attrs.as<op::EpsAttrs>().eps;
    if (is(op, "group_norm"))
      view_groups(v, x.shape, attrs.as<op::GroupNormAttrs>().groups, op.name);
    else if (is(op, "instance_norm"))
      view_groups(v, x.shape, std::max<std::int64_t>(x.shape[1], 1), op.name);
    else
      view_channels(v, x.shape);
  }
  check(v.eps >= 0 && v.eps < kInfinity, "[{}] expected eps of at least 0, got {}", op.name, v.eps);
  check_size(v.stats, size_of(x.dtype), op.name.c_str());  // zero channels in very many groups
  check(v.count() > 0 || v.stats.numel() == 0, "[{}] expected at least one element to take statistics of, got {}",
        op.name, to_string(x));
  return v;
}

namespace {

void expect_type(const InferCall& call, std::size_t i, const TensorType& want) {
  if (i >= call.in.size()) return;
  check(call.in[i] == want, "[{}] expected {} {}, got {}", call.op.name, call.op.inputs[i], to_string(want),
        to_string(call.in[i]));
}

Types infer_forward(const InferCall& call) {
  const NormView v = norm_view(call.op, call.in[0], call.attrs);
  const DType dtype = call.in[0].dtype;
  expect_type(call, 1, {dtype, v.weight_type});
  expect_type(call, 2, {dtype, v.weight_type});
  Types out{call.in[0], {dtype, v.stats_type}};
  if (v.centred) out.push_back({dtype, v.stats_type});
  return out;
}

// Operand indices of a backward: RMS has no mean.
struct BackwardOperands {
  std::size_t var, weight;
  explicit BackwardOperands(const NormView& v) : var(v.centred ? 3 : 2), weight(var + 1) {}
};

Types infer_backward(const InferCall& call) {
  const NormView v = norm_view(call.op, call.in[1], call.attrs);
  const BackwardOperands at(v);
  const DType dtype = call.in[1].dtype;
  expect_type(call, 0, call.in[1]);
  for (std::size_t i = 2; i <= at.var; ++i) expect_type(call, i, {dtype, v.stats_type});
  expect_type(call, at.weight, {dtype, v.weight_type});
  const TensorType weight{dtype, call.in.size() > at.weight ? v.weight_type : Shape{0}};
  Types out{call.in[1], weight};
  if (v.centred) out.push_back(weight);
  return out;
}

void plus(Tensor& total, const Tensor& term) { total = total.defined() ? add(total, term) : term; }

TensorList grad_forward(const GradCall& c) {
  const Tensor& x = c.in[0];
  const NormView v = norm_view(c.op, x.type(), c.attrs);
  const double each = 1 / static_cast<double>(v.count());
  TensorList out(c.in.size());
  if (c.grads[0].defined()) {
    TensorList operands{c.grads[0], x, c.out[1]};
    if (v.centred) operands.push_back(c.out[2]);
    if (c.in.size() > 1) operands.push_back(c.in[1]);
    const TensorList back = apply(find_op(c.op.name + "_backward"), {operands.data(), operands.size()}, c.attrs);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = back[i];
  }
  // Statistics are results too, with gradients of their own.
  const Tensor& through = c.grads[v.centred ? 2 : 1];
  if (through.defined()) {
    Tensor apart = reshape(x, v.x);
    if (v.centred) apart = sub(apart, reshape(c.out[1], v.stats));
    plus(out[0], reshape(mul(apart, reshape(mul(through, 2 * each), v.stats)), x.shape()));
  }
  if (v.centred && c.grads[1].defined())
    plus(out[0], reshape(broadcast_to(reshape(mul(c.grads[1], each), v.stats), v.x), x.shape()));
  return out;
}

// Second derivative. With r = (var + eps)^(-1/2), h = (x - mean) r, g = dy w and averages over the elements that share
// statistics, the backward is dx = r (g - avg g - h avg(g h)), dweight = Σ dy h, dbias = Σ dy. This is its derivative
// by the chain rule, with statistics as operands.
TensorList grad_backward(const GradCall& c) {
  const NormView v = norm_view(c.op, c.in[1].type(), c.attrs);
  const BackwardOperands at(v);
  const double each = 1 / static_cast<double>(v.count());
  const bool weighted = c.in.size() > at.weight;
  const auto over_stats = [&](const Tensor& t) { return sum(t, {.axes = v.shared_stats, .keepdim = true}); };
  const auto average = [&](const Tensor& t) { return mul(over_stats(t), each); };
  const auto over_weight = [&](const Tensor& t) { return sum(t, {.axes = v.shared_weight}); };

  const Tensor dy = reshape(c.in[0], v.x), var = reshape(c.in[at.var], v.stats);
  const Tensor weight = weighted ? reshape(c.in[at.weight], v.weight) : Tensor();
  const Tensor r = div(full({}, 1.0, var.dtype()), sqrt(add(var, v.eps)));
  Tensor apart = reshape(c.in[1], v.x);
  if (v.centred) apart = sub(apart, reshape(c.in[2], v.stats));
  const Tensor h = mul(apart, r);

  TensorList out(c.in.size());
  Tensor to_dy, to_h, to_r;
  if (c.grads[0].defined()) {
    const Tensor u = reshape(c.grads[0], v.x);
    const Tensor g = weighted ? mul(dy, weight) : dy;
    const Tensor b = average(mul(g, h)), ur = mul(u, r), bs = average(mul(ur, h));
    Tensor inner = sub(g, mul(h, b)), to_g = sub(ur, mul(h, bs));
    if (v.centred) {
      inner = sub(inner, average(g));
      to_g = sub(to_g, average(ur));
    }
    to_r = over_stats(mul(u, inner));
    to_h = neg(add(mul(ur, b), mul(g, bs)));
    to_dy = weighted ? mul(to_g, weight) : to_g;
    if (weighted) out[at.weight] = reshape(over_weight(mul(to_g, dy)), v.weight_type);
  }
  if (weighted && c.grads[1].defined()) {
    const Tensor p = reshape(c.grads[1], v.weight);
    plus(to_dy, mul(h, p));
    plus(to_h, mul(dy, p));
  }
  if (weighted && v.centred && c.grads[2].defined()) plus(to_dy, broadcast_to(reshape(c.grads[2], v.weight), v.x));
  if (to_dy.defined()) out[0] = reshape(to_dy, c.in[0].shape());
  if (to_h.defined()) {
    const Tensor to_x = mul(to_h, r);
    out[1] = reshape(to_x, c.in[1].shape());
    if (v.centred) out[2] = reshape(neg(over_stats(to_x)), v.stats_type);
    plus(to_r, over_stats(mul(to_h, apart)));
  }
  if (to_r.defined()) out[at.var] = reshape(mul(mul(to_r, mul(mul(r, r), r)), -0.5), v.stats_type);
  return out;
}

// Split dimension whose rows have statistics of their own, or -1.
int split_of(const ShardCall& call, std::size_t x, const NormView& v) {
  const int rows = v.x.rank() == 2 ? v.stats_type.rank() : 1;
  const Layout from = call.layouts[x];
  return from.is_split() && from.dim < rows ? from.dim : -1;
}

ShardRule shard_forward(const ShardCall& call) {
  ShardRule rule = rules::shard_replicated(call);
  const int dim = split_of(call, 0, norm_view(call.op, call.in[0], call.attrs));
  if (dim < 0) return rule;
  rule.in[0] = Layout::split(dim);
  for (auto& out : rule.out) out = Layout::split(dim);
  return rule;
}

ShardRule shard_backward(const ShardCall& call) {
  ShardRule rule = rules::shard_replicated(call);
  const NormView v = norm_view(call.op, call.in[1], call.attrs);
  const int dim = split_of(call, 1, v);
  if (dim < 0) return rule;
  for (std::size_t i = 0; i <= BackwardOperands(v).var; ++i) rule.in[i] = Layout::split(dim);
  rule.out[0] = Layout::split(dim);
  for (std::size_t i = 1; i < rule.out.size(); ++i) rule.out[i] = Layout::partial();
  return rule;
}

}  // namespace

OpDef norm_forward(std::string name, std::string doc, const AttrType* attrs) {
  const bool rms = name == "rms_norm";
  std::vector<std::string> inputs = {"x", "weight?"}, outputs = {"y", "square"};
  if (!rms) {
    inputs.emplace_back("bias?");
    outputs = {"y", "mean", "var"};
  }
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = std::move(inputs),
          .outputs = std::move(outputs),
          .attrs = attrs,
          .infer = infer_forward,
          .gradient = grad_forward,
          .shard = shard_forward,
          .saves = kSavesAll,
          .cost = costs::each(rms ? 5 : 8),  // mean and variance 4, normalising 2, scale and shift 2
          .precision = Width::wide};
}

OpDef norm_backward(std::string name, const AttrType* attrs) {
  const bool rms = name == "rms_norm_backward";
  std::vector<std::string> inputs = {"dy", "x", "mean", "var", "weight?"}, outputs = {"dx", "dweight", "dbias"};
  if (rms) {
    inputs = {"dy", "x", "square", "weight?"};
    outputs = {"dx", "dweight"};
  }
  const std::string of = name.substr(0, name.size() - std::string("_backward").size());
  return {.name = std::move(name),
          .doc = "The gradients of " + of + " from its saved statistics; those of the weight are empty without one.",
          .inputs = std::move(inputs),
          .outputs = std::move(outputs),
          .attrs = attrs,
          .infer = infer_backward,
          .gradient = grad_backward,
          .shard = shard_backward,
          .saves = kSavesInputs,
          .cost = costs::each(rms ? 8 : 11),
          .precision = Width::wide};
}

std::vector<OpCase> norm_backward_cases(const OpDef& backward, const std::vector<OpCase>& forward) {
  std::vector<OpCase> cases;
  for (const auto& c : forward) {
    const NormView v = norm_view(backward, {DType::f64, c.in[0].shape}, c.attrs);
    OpCase made{{{.shape = c.in[0].shape}, {.shape = c.in[0].shape}}, c.attrs};
    if (v.centred) made.in.push_back({.shape = v.stats_type, .low = -0.5, .high = 0.5});
    made.in.push_back({.shape = v.stats_type, .low = 0.5, .high = 1.5});
    if (c.in.size() > 1) made.in.push_back({.shape = v.weight_type});
    cases.push_back(made);
  }
  return cases;
}

void add_norm(OpRegistry& ops, const char* name, const char* doc, const AttrType* attrs,
              std::vector<OpCase> (*cases)()) {
  OpDef forward = norm_forward(name, doc, attrs), backward = norm_backward(std::string(name) + "_backward", attrs);
  forward.cases = cases;
  const OpDef plain = backward;
  backward.cases = [plain, cases] { return norm_backward_cases(plain, cases()); };
  ops.add(std::move(forward));
  ops.add(std::move(backward));
}

TensorList with_affine(TensorList in, const Tensor& weight, const Tensor& bias, const char* who) {
  check(weight.defined() || !bias.defined(), "[{}] expected a weight beside the bias, got none", who);
  if (weight.defined()) in.push_back(weight);
  if (bias.defined()) in.push_back(bias);
  return in;
}

OpCase norm_case(Shape x, int affine, Shape weight, const Attrs& attrs) {
  OpCase c{{{.shape = x, .distinct = true}}, attrs};
  for (int i = 0; i < affine; ++i) c.in.push_back({.shape = weight, .low = 0.5, .high = 1.5});
  return c;
}

}  // namespace starling
