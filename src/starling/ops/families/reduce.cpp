#include "starling/ops/reduce.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/ops/apply.h"
#include "starling/ops/binary.h"
#include "starling/ops/creation.h"
#include "starling/ops/registry.h"
#include "starling/ops/rules.h"
#include "starling/ops/shape_ops.h"

namespace starling {

Tensor sum(const Tensor& x, const ReduceAttrs& attrs) {
  static const OpDef& op = find_op("sum");
  return apply1(op, {x}, attrs);
}
Tensor mean(const Tensor& x, const ReduceAttrs& attrs) {
  static const OpDef& op = find_op("mean");
  return apply1(op, {x}, attrs);
}
Tensor max(const Tensor& x, const ReduceAttrs& attrs) {
  static const OpDef& op = find_op("max");
  return apply1(op, {x}, attrs);
}

Shape reduced_axes(const Shape& axes, int rank, const char* who) {
  bool used[kMaxRank] = {};
  for (auto axis : axes) {
    const int a = normalize_axis(axis, rank, who);
    check(!used[a], "[{}] expected every axis once, got {}", who, to_string(axes));
    used[a] = true;
  }
  Shape out;
  for (int i = 0; i < rank; ++i) {
    if (axes.empty() || used[i]) out.push_back(i);
  }
  return out;
}

Shape reduced_shape(const Shape& shape, const Shape& axes, bool keepdim) {
  Shape out;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool reduced = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (!reduced) out.push_back(shape[i]);
    if (reduced && keepdim) out.push_back(1);
  }
  return out;
}

namespace {

Types infer_reduce(const InferCall& call) {
  const auto& attrs = call.attrs.as<ReduceAttrs>();
  const Shape& shape = call.in[0].shape;
  const Shape axes = reduced_axes(attrs.axes, shape.rank(), call.op.name.c_str());
  return {TensorType{call.in[0].dtype, reduced_shape(shape, axes, attrs.keepdim)}};
}

Types infer_max(const InferCall& call) {
  const auto& attrs = call.attrs.as<ReduceAttrs>();
  for (auto axis : reduced_axes(attrs.axes, call.in[0].shape.rank(), "max")) {
    check(call.in[0].shape[static_cast<int>(axis)] > 0, "[max] expected at least one element along axis {}, got {}",
          axis, to_string(call.in[0]));
  }
  return infer_reduce(call);
}

Types infer_mean(const InferCall& call) {
  rules::expect_float(call);
  return infer_reduce(call);
}

// The reduced tensor with its lost dimensions back as 1, stretched over the shape it came from.
Tensor spread(const Tensor& reduced, const Shape& shape, const Attrs& attrs) {
  const Shape axes = reduced_axes(attrs.as<ReduceAttrs>().axes, shape.rank(), "spread");
  return broadcast_to(reshape(reduced, reduced_shape(shape, axes, true)), shape);
}

double reduced_count(const Shape& shape, const Attrs& attrs) {
  double count = 1;
  for (auto axis : reduced_axes(attrs.as<ReduceAttrs>().axes, shape.rank(), "mean")) {
    count *= static_cast<double>(shape[static_cast<int>(axis)]);
  }
  return count;
}

TensorList grad_max(const GradCall& c) {
  static const OpDef& op = find_op("max_backward");
  return {apply1(op, {c.grads[0], c.in[0], c.out[0]}, c.attrs)};
}

// Splitting a dimension that is summed over leaves a term on every rank; splitting another one carries through.
ShardRule shard_reduce(const ShardCall& call, Placement across) {
  const Placement from = call.placed[0];
  if (from.is_partial() && across == from) return {{from}, {from}};
  if (!from.is_split()) return rules::shard_replicated(call);
  const auto& attrs = call.attrs.as<ReduceAttrs>();
  const Shape axes = reduced_axes(attrs.axes, call.in[0].shape.rank(), call.op.name.c_str());
  int kept = 0;
  for (auto axis : axes) {
    if (axis == from.dim) return {{from}, {across}};
    kept += !attrs.keepdim && axis < from.dim;
  }
  return {{from}, {Placement::split(from.dim - kept)}};
}

std::vector<OpCase> reduce_cases(bool empty) {
  const auto one = [](Shape shape, ReduceAttrs attrs) { return OpCase{{{.shape = shape, .distinct = true}}, attrs}; };
  std::vector<OpCase> cases = {one({7}, {}),
                               one({3, 5}, {.axes = {0}}),
                               one({3, 5}, {.axes = {1}, .keepdim = true}),
                               one({2, 3, 4}, {.axes = {0, 2}}),
                               one({2, 3, 4}, {.axes = {-2}}),
                               one({}, {}),
                               one({2, 3, 4, 2}, {.axes = {1, 2}, .keepdim = true})};
  if (empty) cases.push_back(one({0, 3}, {.axes = {0}}));
  return cases;
}

OpDef reduction(std::string name, std::string doc) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {"x"},
          .attrs = &attr_type<ReduceAttrs>(),
          .infer = infer_reduce,
          .cases = [] { return reduce_cases(true); },
          .saves = kSavesNothing};
}

Types infer_max_backward(const InferCall& call) {
  rules::expect_same_dtype(call);
  const TensorType x[] = {call.in[1]};
  const TensorType y = infer_max({call.op, x, call.attrs})[0];
  check(call.in[0] == y && call.in[2] == y, "[max_backward] expected dy and y of {}, got {} and {}", to_string(y),
        to_string(call.in[0]), to_string(call.in[2]));
  return {call.in[1]};
}

void register_max_backward(OpRegistry& ops) {
  ops.add({.name = "max_backward",
           .doc = "dy at the first x that reaches the maximum y, else 0.",
           .inputs = {"dy", "x", "y"},
           .outputs = {"dx"},
           .attrs = &attr_type<ReduceAttrs>(),
           .infer = infer_max_backward,
           .gradient =
               [](const GradCall& c) {
                 // Linear in dy: what flows back is read at the same place.
                 const Tensor chosen =
                     apply1(c.op, {full(c.in[0].shape(), 1.0, c.in[0].dtype()), c.in[1], c.in[2]}, c.attrs);
                 const Shape axes = reduced_axes(c.attrs.as<ReduceAttrs>().axes, c.in[1].rank(), "max");
                 return TensorList{reshape(sum(mul(c.grads[0], chosen), {.axes = axes}), c.in[0].shape())};
               },
           .cases =
               [] {
                 const auto made = [](Shape x, Shape y, ReduceAttrs attrs) {
                   // Just above the least x: the first of the others is chosen, and small steps change nothing.
                   return OpCase{
                       {{.shape = y}, {.shape = x, .distinct = true}, {.shape = y, .low = -1.9, .high = -1.9}}, attrs};
                 };
                 return std::vector<OpCase>{made({7}, {}, {}), made({3, 5}, {5}, {.axes = {0}})};
               },
           .saves = kSavesInputs,
           .plain = true});
}

}  // namespace

void register_ops_reduce(OpRegistry& ops) {
  OpDef total = reduction("sum", "The sum over the given axes, or over all.");
  total.gradient = [](const GradCall& c) { return TensorList{spread(c.grads[0], c.in[0].shape(), c.attrs)}; };
  total.shard = [](const ShardCall& call) { return shard_reduce(call, Placement::partial()); };
  ops.add(total);

  OpDef average = reduction("mean", "The mean over the given axes, or over all.");
  average.infer = infer_mean;
  average.gradient = [](const GradCall& c) {
    const double scale = 1 / reduced_count(c.in[0].shape(), c.attrs);
    return TensorList{spread(mul(c.grads[0], scale), c.in[0].shape(), c.attrs)};
  };
  // A mean of pieces is not the mean: ranks add up sums and divide once, by the global count.
  average.decompose = [](std::span<const Tensor> in, const Attrs& attrs) {
    return TensorList{mul(sum(in[0], attrs.as<ReduceAttrs>()), 1 / reduced_count(in[0].shape(), attrs))};
  };
  average.cases = [] { return reduce_cases(false); };
  ops.add(average);

  OpDef largest = reduction("max", "The largest value over the given axes, or over all.");
  largest.infer = infer_max;
  largest.gradient = grad_max;
  largest.saves = kSavesAll;
  largest.shard = [](const ShardCall& call) { return shard_reduce(call, Placement::partial(ReduceOp::max)); };
  largest.cases = [] { return reduce_cases(false); };
  ops.add(largest);
  register_max_backward(ops);
}

}  // namespace starling
