#include "starling/ops/api/scan.h"

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"
#include "starling/ops/def/scopes/near_scope.h"

namespace starling {

Tensor cumsum(const Tensor& x, const op::ScanAttrs& attrs) { return apply1(named_op<"cumsum">(), {x}, attrs); }
Tensor cumprod(const Tensor& x, const op::ScanAttrs& attrs) { return apply1(named_op<"cumprod">(), {x}, attrs); }
Tensor linear_recurrence(const Tensor& a, const Tensor& b, const op::RecurrenceAttrs& attrs) {
  return apply1(named_op<"linear_recurrence">(), {a, b}, attrs);
}

namespace {

Types infer_scan(const InferCall& call) {
  const TensorType& x = call.in[0];
  check(x.shape.rank() >= 1, "[{}] expected rank of at least 1, got a scalar", call.op.name);
  normalize_axis(call.attrs.as<op::ScanAttrs>().axis, x.shape.rank(), call.op.name.c_str());
  return {TensorType{is_float(x.dtype) ? x.dtype : DType::i64, x.shape}};
}

Types infer_recurrence(const InferCall& call) {
  rules::expect_float(call);
  check(call.in[0] == call.in[1], "[linear_recurrence] expected operands alike, got {} and {}", to_string(call.in[0]),
        to_string(call.in[1]));
  check(call.in[0].shape.rank() >= 1, "[linear_recurrence] expected rank of at least 1, got a scalar");
  normalize_axis(call.attrs.as<op::RecurrenceAttrs>().axis, call.in[0].shape.rank(), "linear_recurrence");
  return {call.in[0]};
}

// out[t] = x[t + 1] (or x[t - 1] when not ahead), 0 beyond the end.
Tensor shifted(const Tensor& x, std::int64_t axis, bool ahead) {
  const int at = normalize_axis(axis, x.rank(), "scan");
  const std::int64_t size = x.shape()[at];
  if (size == 0) return x;
  Shape edge = x.shape();
  edge[at] = 1;
  const NearScope near(x);
  const Tensor nothing = full(edge, 0.0, x.dtype());
  const Tensor rest = slice(x, {.axis = at, .begin = ahead ? 1 : 0, .end = ahead ? size : size - 1});
  const Tensor parts[] = {ahead ? rest : nothing, ahead ? nothing : rest};
  return concat(parts, at);
}

TensorList grad_cumsum(const GradCall& c) {
  op::ScanAttrs attrs = c.attrs.as<op::ScanAttrs>();
  attrs.reverse = !attrs.reverse;
  return {cumsum(c.grads[0], attrs)};
}

// With P the product of all before k, dx[k] = P · s[k] where s[k] = dy[k] + x[k + 1] · s[k + 1]: no division. An
// exclusive product is the inclusive one, one step later.
TensorList grad_cumprod(const GradCall& c) {
  const auto attrs = c.attrs.as<op::ScanAttrs>();
  const Tensor& x = c.in[0];
  const bool ahead = !attrs.reverse;
  const Tensor dy = attrs.exclusive ? shifted(c.grads[0], attrs.axis, ahead) : c.grads[0];
  const Tensor s = linear_recurrence(shifted(x, attrs.axis, ahead), dy, {.axis = attrs.axis, .reverse = ahead});
  return {mul(cumprod(x, {.axis = attrs.axis, .exclusive = true, .reverse = attrs.reverse}), s)};
}

// Gradient of y[t]: dy[t] and, through the next step, a[t + 1] times the gradient of y[t + 1].
TensorList grad_recurrence(const GradCall& c) {
  const auto attrs = c.attrs.as<op::RecurrenceAttrs>();
  const bool ahead = !attrs.reverse;
  const Tensor flow =
      linear_recurrence(shifted(c.in[0], attrs.axis, ahead), c.grads[0], {.axis = attrs.axis, .reverse = ahead});
  TensorList out(2);
  if (c.needs(0)) out[0] = mul(flow, shifted(c.out[0], attrs.axis, !ahead));
  out[1] = flow;
  return out;
}

// Any dimension but the scanned one may be split.
ShardRule shard_scan(const ShardCall& call) {
  const AttrField* field = call.attrs.find("axis");
  const int axis = normalize_axis(call.attrs.get<std::int64_t>(*field), call.in[0].shape.rank(), call.op.name.c_str());
  ShardRule rule = rules::shard_replicated(call);
  for (const auto& layout : call.layouts) {
    if (!layout.is_split() || layout.dim == axis) continue;
    for (auto& in : rule.in) in = layout;
    rule.out[0] = layout;
    break;
  }
  return rule;
}

std::vector<OpCase> scan_cases() {
  const auto one = [](Shape shape, op::ScanAttrs attrs) {
    return OpCase{{{.shape = shape, .low = -1.5, .high = 1.5}}, attrs};
  };
  return {one({7}, {}),
          one({3, 5}, {.axis = 0}),
          one({3, 5}, {.axis = 1, .exclusive = true}),
          one({2, 3, 4}, {.axis = -2, .reverse = true}),
          one({2, 3, 4}, {.axis = 0, .exclusive = true, .reverse = true}),
          one({1}, {.exclusive = true}),
          one({2, 19}, {.reverse = true}),
          one({4, 18}, {.axis = 0}),
          one({0, 3}, {.axis = 0}),
          one({3, 0}, {})};
}

std::vector<OpCase> recurrence_cases() {
  const auto one = [](Shape shape, op::RecurrenceAttrs attrs) {
    return OpCase{{{.shape = shape, .low = -1, .high = 1}, {.shape = shape}}, attrs};
  };
  return {one({7}, {}),
          one({3, 5}, {.axis = 0}),
          one({3, 5}, {.axis = 1, .reverse = true}),
          one({2, 3, 4}, {.axis = -2}),
          one({2, 3, 4}, {.axis = 0, .reverse = true}),
          one({1}, {}),
          one({2, 19}, {}),
          one({4, 18}, {.axis = 0}),
          one({0, 3}, {.axis = 0})};
}

}  // namespace

void register_ops_scan(OpRegistry& ops) {
  ops.add({.name = "cumsum",
           .doc = "Running sums along an axis; integers give i64.",
           .inputs = {"x"},
           .attrs = &attr_type<op::ScanAttrs>(),
           .infer = infer_scan,
           .gradient = grad_cumsum,
           .shard = shard_scan,
           .cases = scan_cases,
           .saves = kSavesNothing,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "cumprod",
           .doc = "Running products along an axis; integers give i64.",
           .inputs = {"x"},
           .attrs = &attr_type<op::ScanAttrs>(),
           .infer = infer_scan,
           .gradient = grad_cumprod,
           .shard = shard_scan,
           .cases = scan_cases,
           .saves = kSavesInputs,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "linear_recurrence",
           .doc = "y[t] = a[t] · y[t - 1] + b[t] along an axis.",
           .inputs = {"a", "b"},
           .attrs = &attr_type<op::RecurrenceAttrs>(),
           .infer = infer_recurrence,
           .gradient = grad_recurrence,
           .shard = shard_scan,
           .cases = recurrence_cases,
           .saves = kSavesAll,
           .cost = costs::each(2),
           .precision = Width::wide});
}

}  // namespace starling
