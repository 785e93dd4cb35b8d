#include "starling/ops/api/arg_reduce.h"

#include "starling/base/error.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor argmax(const Tensor& x, const op::ReduceAttrs& attrs) { return apply1(named_op<"argmax">(), {x}, attrs); }
Tensor argmin(const Tensor& x, const op::ReduceAttrs& attrs) { return apply1(named_op<"argmin">(), {x}, attrs); }

namespace {

Types infer_arg(const InferCall& call) {
  rules::expect_ordered(call);
  const auto& attrs = call.attrs.as<op::ReduceAttrs>();
  const Shape& shape = call.in[0].shape;
  check(attrs.axes.rank() <= 1, "[{}] expected one axis or none, got {}", call.op.name, to_string(attrs.axes));
  const Shape axes = op::reduced_axes(attrs.axes, shape.rank(), call.op.name.c_str());
  for (auto axis : axes) {
    check(shape[static_cast<int>(axis)] > 0, "[{}] expected at least one element along axis {}, got {}", call.op.name,
          axis, to_string(call.in[0]));
  }
  return {TensorType{DType::i64, op::reduced_shape(shape, axes, attrs.keepdim)}};
}

ShardRule shard_arg(const ShardCall& call) {
  const Layout from = call.layouts[0];
  const auto& attrs = call.attrs.as<op::ReduceAttrs>();
  if (!from.is_split() || attrs.axes.empty()) return rules::shard_replicated(call);
  const int axis = normalize_axis(attrs.axes[0], call.in[0].shape.rank(), call.op.name.c_str());
  if (axis == from.dim) return rules::shard_replicated(call);
  return {{from}, {Layout::split(from.dim - (!attrs.keepdim && axis < from.dim ? 1 : 0))}};
}

std::vector<OpCase> arg_cases() {
  const auto one = [](Shape shape, op::ReduceAttrs attrs, DType dtype = DType::f64) {
    return OpCase{{{.shape = shape, .dtype = dtype}}, attrs};
  };
  return {one({7}, {}),
          one({3, 5}, {.axes = {0}}),
          one({3, 5}, {.axes = {1}, .keepdim = true}),
          one({2, 3, 4}, {.axes = {-2}}),
          one({2, 3, 4}, {.keepdim = true}),
          one({}, {}),
          one({3, 37}, {.axes = {1}}),
          one({5, 33}, {.axes = {0}}),
          one({3, 9}, {.axes = {1}}, DType::i64),
          one({3, 9}, {}, DType::u8),
          one({0, 3}, {.axes = {1}})};
}

}  // namespace

void register_ops_arg_reduce(OpRegistry& ops) {
  for (const auto& [name, doc] : {std::pair{"argmax", "Where the largest value is, along one axis or in all."},
                                  std::pair{"argmin", "Where the smallest value is, along one axis or in all."}}) {
    ops.add({.name = name,
             .doc = doc,
             .inputs = {"x"},
             .outputs = {"index"},
             .attrs = &attr_type<op::ReduceAttrs>(),
             .infer = infer_arg,
             .shard = shard_arg,
             .cases = arg_cases,
             .saves = kSavesNothing,
             .cost = costs::each(1),
             .precision = Width::wide});
  }
}

}  // namespace starling
