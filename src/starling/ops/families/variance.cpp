#include "starling/ops/api/variance.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor var(const Tensor& x, const op::VarAttrs& attrs) { return apply1(named_op<"var">(), {x}, attrs); }
Tensor stddev(const Tensor& x, const op::VarAttrs& attrs) { return apply1(named_op<"std">(), {x}, attrs); }

namespace {

Types infer_var(const InferCall& call) {
  rules::expect_float(call);
  const auto& attrs = call.attrs.as<op::VarAttrs>();
  check(attrs.correction >= 0, "[{}] expected a correction of at least 0, got {}", call.op.name, attrs.correction);
  const Shape& shape = call.in[0].shape;
  const Shape axes = op::reduced_axes(attrs.axes, shape.rank(), call.op.name.c_str());
  return {TensorType{call.in[0].dtype, op::reduced_shape(shape, axes, attrs.keepdim)}};
}

// 2 (x - mean) / (n - correction) times the gradient of the variance.
Tensor through_variance(const Tensor& x, const Tensor& flow, const op::VarAttrs& attrs) {
  const double freedom =
      std::max(op::reduced_count(x.shape(), attrs.axes) - static_cast<double>(attrs.correction), 0.0);
  const Tensor centred = sub(x, mean(x, {.axes = attrs.axes, .keepdim = true}));
  return mul(centred, op::with_lost_dims(mul(flow, 2 / freedom), x.shape(), attrs.axes));
}

TensorList grad_var(const GradCall& c) {
  if (c.in[0].numel() == 0) return {full(c.in[0].shape(), 0.0, c.in[0].dtype())};
  return {through_variance(c.in[0], c.grads[0], c.attrs.as<op::VarAttrs>())};
}

TensorList grad_std(const GradCall& c) {
  if (c.in[0].numel() == 0) return {full(c.in[0].shape(), 0.0, c.in[0].dtype())};
  const Tensor& y = c.out[0];
  const Tensor zero = full({}, 0.0, y.dtype()), flat = equal(y, zero);
  const Tensor safe = where(flat, full({}, 1.0, y.dtype()), y);
  return {through_variance(c.in[0], where(flat, zero, div(mul(c.grads[0], 0.5), safe)), c.attrs.as<op::VarAttrs>())};
}

ShardRule shard_var(const ShardCall& call) {
  const Layout from = call.layouts[0];
  const auto& attrs = call.attrs.as<op::VarAttrs>();
  if (!from.is_split()) return rules::shard_replicated(call);
  int lost = 0;
  for (auto axis : op::reduced_axes(attrs.axes, call.in[0].shape.rank(), call.op.name.c_str())) {
    if (axis == from.dim) return rules::shard_replicated(call);
    lost += !attrs.keepdim && axis < from.dim;
  }
  return {{from}, {Layout::split(from.dim - lost)}};
}

std::vector<OpCase> var_cases() {
  const auto one = [](Shape shape, op::VarAttrs attrs) { return OpCase{{{.shape = shape, .distinct = true}}, attrs}; };
  return {one({7}, {}),
          one({3, 5}, {.axes = {0}}),
          one({3, 5}, {.axes = {1}, .correction = 0, .keepdim = true}),
          one({2, 3, 4}, {.axes = {0, 2}}),
          one({2, 3, 4}, {.axes = {-2}, .correction = 2}),
          one({3, 37}, {.axes = {-1}}),
          one({5, 33}, {.axes = {0}, .correction = 0}),
          one({3, 2, 17}, {.axes = {0, 2}, .keepdim = true}),
          one({2, 3, 2, 4, 2}, {.axes = {0, 2, 4}}),
          one({2, 3, 2, 5}, {.axes = {0, 2}}),
          one({0, 3}, {.axes = {1}})};
}

OpDef variance(std::string name, std::string doc, std::function<TensorList(const GradCall&)> gradient, Saves saves) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {"x"},
          .attrs = &attr_type<op::VarAttrs>(),
          .infer = infer_var,
          .gradient = std::move(gradient),
          .shard = shard_var,
          .cases = var_cases,
          .saves = saves,
          .cost = costs::each(4),
          .precision = Width::wide};
}

}  // namespace

void register_ops_variance(OpRegistry& ops) {
  ops.add(
      variance("var", "Σ (x - mean)² / (n - correction) over the given axes, or over all.", grad_var, kSavesInputs));
  ops.add(variance("std", "The square root of var.", grad_std, kSavesAll));
}

}  // namespace starling
