#include "starling/ops/api/reduce.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/scan.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor sum(const Tensor& x, const op::ReduceAttrs& attrs) { return apply1(named_op<"sum">(), {x}, attrs); }
Tensor mean(const Tensor& x, const op::ReduceAttrs& attrs) { return apply1(named_op<"mean">(), {x}, attrs); }
Tensor prod(const Tensor& x, const op::ReduceAttrs& attrs) { return apply1(named_op<"prod">(), {x}, attrs); }
Tensor max(const Tensor& x, const op::ReduceAttrs& attrs) { return apply1(named_op<"max">(), {x}, attrs); }
Tensor min(const Tensor& x, const op::ReduceAttrs& attrs) { return apply1(named_op<"min">(), {x}, attrs); }
Tensor any(const Tensor& x, const op::ReduceAttrs& attrs) { return apply1(named_op<"any">(), {x}, attrs); }
Tensor all(const Tensor& x, const op::ReduceAttrs& attrs) { return apply1(named_op<"all">(), {x}, attrs); }

Shape op::reduced_axes(const Shape& axes, int rank, const char* who) {
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

Shape op::reduced_shape(const Shape& shape, const Shape& axes, bool keepdim) {
  Shape out;
  for (int i = 0; i < shape.rank(); ++i) {
    const bool reduced = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (!reduced) out.push_back(shape[i]);
    if (reduced && keepdim) out.push_back(1);
  }
  return out;
}

double op::reduced_count(const Shape& shape, const Shape& axes) {
  double count = 1;
  for (auto axis : op::reduced_axes(axes, shape.rank(), "reduce"))
    count *= static_cast<double>(shape[static_cast<int>(axis)]);
  return count;
}

Tensor op::with_lost_dims(const Tensor& reduced, const Shape& shape, const Shape& axes) {
  return reshape(reduced, op::reduced_shape(shape, op::reduced_axes(axes, shape.rank(), "reduce"), true));
}

Tensor op::spread(const Tensor& reduced, const Shape& shape, const Shape& axes) {
  return broadcast_to(op::with_lost_dims(reduced, shape, axes), shape);
}

namespace {

Types infer_reduce(const InferCall& call, DType dtype) {
  const auto& attrs = call.attrs.as<op::ReduceAttrs>();
  const Shape& shape = call.in[0].shape;
  const Shape axes = op::reduced_axes(attrs.axes, shape.rank(), call.op.name.c_str());
  return {TensorType{dtype, op::reduced_shape(shape, axes, attrs.keepdim)}};
}

Types infer_sum(const InferCall& call) {
  return infer_reduce(call, is_float(call.in[0].dtype) ? call.in[0].dtype : DType::i64);
}

Types infer_extreme(const InferCall& call) {
  rules::expect_ordered(call);
  const Shape& shape = call.in[0].shape;
  for (auto axis : op::reduced_axes(call.attrs.as<op::ReduceAttrs>().axes, shape.rank(), call.op.name.c_str())) {
    check(shape[static_cast<int>(axis)] > 0, "[{}] expected at least one element along axis {}, got {}", call.op.name,
          axis, to_string(call.in[0]));
  }
  return infer_reduce(call, call.in[0].dtype);
}

Types infer_mean(const InferCall& call) {
  rules::expect_float(call);
  return infer_reduce(call, call.in[0].dtype);
}

Types infer_bool(const InferCall& call) { return infer_reduce(call, DType::boolean); }

// Splitting a reduced dimension gives partial results; splitting another one is kept.
ShardRule shard_reduce(const ShardCall& call, Layout across) {
  const Layout from = call.layouts[0];
  if (from.is_partial() && across == from) return {{from}, {from}};
  if (!from.is_split()) return rules::shard_replicated(call);
  const auto& attrs = call.attrs.as<op::ReduceAttrs>();
  const Shape axes = op::reduced_axes(attrs.axes, call.in[0].shape.rank(), call.op.name.c_str());
  int kept = 0;
  for (auto axis : axes) {
    if (axis == from.dim) return {{from}, {across}};
    kept += !attrs.keepdim && axis < from.dim;
  }
  return {{from}, {Layout::split(from.dim - kept)}};
}

// A split of a reduced dimension is undone: gradients know no partial products.
ShardRule shard_prod(const ShardCall& call) {
  ShardRule rule = shard_reduce(call, Layout::replicate());
  return rule.out[0].is_split() ? rule : rules::shard_replicated(call);
}

// Gradient of a factor: the product of all others, those before it times those after it. For that the reduced axes are
// flattened into rows.
TensorList grad_prod(const GradCall& c) {
  const Tensor& x = c.in[0];
  const Shape& shape = x.shape();
  const Shape axes = op::reduced_axes(c.attrs.as<op::ReduceAttrs>().axes, x.rank(), "prod");
  if (axes.empty() || x.numel() == 0) return {op::spread(c.grads[0], shape, axes)};
  Shape order, back = Shape::filled(x.rank(), 0), moved;
  std::int64_t terms = 1;
  for (const bool reduced : {false, true}) {
    for (int d = 0; d < x.rank(); ++d) {
      if ((std::find(axes.begin(), axes.end(), d) != axes.end()) != reduced) continue;
      back[d] = order.rank();
      order.push_back(d);
      moved.push_back(shape[d]);
      if (reduced) terms *= shape[d];
    }
  }
  const Tensor rows = reshape(transpose(x, order), {x.numel() / terms, terms});
  const Tensor before = cumprod(rows, {.exclusive = true});
  const Tensor after = cumprod(rows, {.exclusive = true, .reverse = true});
  const Tensor others = transpose(reshape(mul(before, after), moved), back);
  return {mul(others, op::with_lost_dims(c.grads[0], shape, axes))};
}

std::vector<OpCase> reduce_cases(bool empty, DType dtype = DType::f64) {
  const auto one = [dtype](Shape shape, op::ReduceAttrs attrs) {
    return OpCase{{{.shape = shape, .dtype = dtype, .distinct = true}}, attrs};
  };
  std::vector<OpCase> cases = {one({7}, {}),
                               one({3, 5}, {.axes = {0}}),
                               one({3, 5}, {.axes = {1}, .keepdim = true}),
                               one({2, 3, 4}, {.axes = {0, 2}}),
                               one({2, 3, 4}, {.axes = {-2}}),
                               one({}, {}),
                               one({3, 37}, {.axes = {-1}}),
                               one({5, 33}, {.axes = {0}}),
                               one({2, 3, 4, 2}, {.axes = {1, 2}, .keepdim = true})};
  if (empty) cases.push_back(one({0, 3}, {.axes = {0}}));
  if (!empty) cases.push_back(one({0, 3}, {.axes = {1}}));
  return cases;
}

OpDef reduction(std::string name, std::string doc) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {"x"},
          .attrs = &attr_type<op::ReduceAttrs>(),
          .infer = infer_sum,
          .cases = [] { return reduce_cases(true); },
          .saves = kSavesNothing,
          .cost = costs::each(1),
          .precision = Width::wide};
}

Types infer_extreme_backward(const InferCall& call) {
  rules::expect_same_dtype(call);
  rules::expect_float(call);
  const TensorType x[] = {call.in[1]};
  const TensorType y = infer_extreme({call.op, x, call.attrs})[0];
  check(call.in[0] == y && call.in[2] == y, "[{}] expected dy and y of {}, got {} and {}", call.op.name, to_string(y),
        to_string(call.in[0]), to_string(call.in[2]));
  return {call.in[1]};
}

// Linear in dy: the gradient is read at the same place.
TensorList grad_extreme_backward(const GradCall& c) {
  const Tensor chosen = apply1(c.op, {full(c.in[0].shape(), 1.0, c.in[0].dtype()), c.in[1], c.in[2]}, c.attrs);
  const Shape axes = op::reduced_axes(c.attrs.as<op::ReduceAttrs>().axes, c.in[1].rank(), c.op.name.c_str());
  if (axes.empty()) return {mul(c.grads[0], chosen)};
  return {reshape(sum(mul(c.grads[0], chosen), {.axes = axes}), c.in[0].shape())};
}

// Row splits are kept; if the reduced axis itself is split, no rank knows which maximum is first.
ShardRule shard_extreme_backward(const ShardCall& call) {
  ShardRule rule = rules::shard_replicated(call);
  const Layout from = call.layouts[1];
  if (!from.is_split()) return rule;
  const auto& attrs = call.attrs.as<op::ReduceAttrs>();
  int lost = 0;
  for (auto axis : op::reduced_axes(attrs.axes, call.in[1].shape.rank(), call.op.name.c_str())) {
    if (axis == from.dim) return rule;
    lost += !attrs.keepdim && axis < from.dim;
  }
  const auto kept = Layout::split(from.dim - lost);
  return {{kept, from, kept}, {from}};
}

// Sample values near the end of the range: the first of those beyond is chosen, and small steps change nothing.
std::vector<OpCase> extreme_backward_cases(double near) {
  const auto made = [near](Shape x, op::ReduceAttrs attrs) {
    const Shape y = op::reduced_shape(x, op::reduced_axes(attrs.axes, x.rank(), "cases"), attrs.keepdim);
    return OpCase{{{.shape = y}, {.shape = x, .distinct = true}, {.shape = y, .low = near, .high = near}}, attrs};
  };
  return {made({7}, {}),
          made({3, 5}, {.axes = {0}}),
          made({3, 5}, {.axes = {1}, .keepdim = true}),
          made({2, 3, 4}, {.axes = {0, 2}}),
          made({2, 3, 4}, {.axes = {-2}}),
          made({}, {}),
          made({3, 37}, {.axes = {1}}),
          made({4, 33}, {.axes = {0}}),
          made({2, 3, 4, 2}, {.axes = {0, 2}, .keepdim = true}),
          made({0, 3}, {.axes = {1}})};
}

void register_extreme(OpRegistry& ops, const std::string& name, const std::string& what, ReduceOp across, double near) {
  OpDef extreme = reduction(name, "The " + what + " value over the given axes, or over all.");
  extreme.infer = infer_extreme;
  extreme.gradient = [](const GradCall& c) {
    const OpDef& backward = c.op.name == "max" ? named_op<"max_backward">() : named_op<"min_backward">();
    return TensorList{apply1(backward, {c.grads[0], c.in[0], c.out[0]}, c.attrs)};
  };
  extreme.saves = kSavesAll;
  extreme.shard = [across](const ShardCall& call) { return shard_reduce(call, Layout::partial(across)); };
  extreme.cases = [] { return reduce_cases(false); };
  extreme.needs_elements = true;
  ops.add(extreme);
  ops.add({.name = name + "_backward",
           .doc = "dy at the first x that reaches the " + what + " value y, else 0.",
           .inputs = {"dy", "x", "y"},
           .outputs = {"dx"},
           .attrs = &attr_type<op::ReduceAttrs>(),
           .infer = infer_extreme_backward,
           .gradient = grad_extreme_backward,
           .shard = shard_extreme_backward,
           .cases = [near] { return extreme_backward_cases(near); },
           .saves = kSavesInputs,
           .cost = costs::each(2),
           .precision = Width::wide});
}

}  // namespace

void register_ops_reduce(OpRegistry& ops) {
  OpDef total = reduction("sum", "The sum over the given axes, or over all; integers give i64.");
  total.gradient = [](const GradCall& c) {
    return TensorList{op::spread(c.grads[0], c.in[0].shape(), c.attrs.as<op::ReduceAttrs>().axes)};
  };
  total.shard = [](const ShardCall& call) { return shard_reduce(call, Layout::partial()); };
  total.by_index = true;
  ops.add(total);

  OpDef average = reduction("mean", "The mean over the given axes, or over all.");
  average.infer = infer_mean;
  average.gradient = [](const GradCall& c) {
    const Shape &shape = c.in[0].shape(), &axes = c.attrs.as<op::ReduceAttrs>().axes;
    return TensorList{op::spread(mul(c.grads[0], 1 / op::reduced_count(shape, axes)), shape, axes)};
  };
  // A mean of means is wrong for uneven pieces: ranks sum and divide once, by the global count.
  average.decompose = [](std::span<const Tensor> in, const Attrs& attrs) {
    const auto& reduce = attrs.as<op::ReduceAttrs>();
    return TensorList{mul(sum(in[0], reduce), 1 / op::reduced_count(in[0].shape(), reduce.axes))};
  };
  average.cases = [] { return reduce_cases(false); };
  ops.add(average);

  OpDef product = reduction("prod", "The product over the given axes, or over all; integers give i64.");
  product.gradient = grad_prod;
  product.shard = shard_prod;
  product.saves = kSavesInputs;
  ops.add(product);

  register_extreme(ops, "max", "largest", ReduceOp::max, -1.9);
  register_extreme(ops, "min", "smallest", ReduceOp::min, 1.9);

  for (const auto& [name, doc] :
       {std::pair{"any", "Whether any element is not zero."}, std::pair{"all", "Whether no element is zero."}}) {
    OpDef test = reduction(name, doc);
    test.infer = infer_bool;
    const Layout across = Layout::partial(name == std::string_view("any") ? ReduceOp::max : ReduceOp::min);
    test.shard = [across](const ShardCall& call) {
      return call.layouts[0].is_split() ? shard_reduce(call, across) : rules::shard_replicated(call);
    };
    test.cases = [] {
      std::vector<OpCase> cases = reduce_cases(true);
      for (auto dtype : {DType::boolean, DType::i64}) {
        for (auto& c : reduce_cases(true, dtype)) cases.push_back(c);
      }
      return cases;
    };
    ops.add(test);
  }
}

}  // namespace starling
