#include "starling/ops/api/shape_ops.h"

#include <numeric>

#include "starling/base/error.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/shape_ops.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor reshape(const Tensor& x, const Shape& shape) {
  static const OpDef& op = find_op("reshape");
  Shape full = shape;
  std::int64_t known = 1;
  int unknown = -1;
  for (int i = 0; i < full.rank(); ++i) {
    if (full[i] == -1) {
      if (unknown >= 0) fail("[reshape] expected at most one size of -1, got {}", to_string(shape));
      unknown = i;
    } else {
      if (__builtin_mul_overflow(known, full[i], &known)) {
        fail("[reshape] expected sizes that can be addressed, got {}", to_string(shape));
      }
    }
  }
  if (unknown >= 0) {
    if (known == 0 && x.numel() == 0) {
      fail("[reshape] expected sizes that tell what -1 stands for in an empty tensor, got {} for {}", to_string(shape),
           to_string(x.type()));
    }
    if (known <= 0 || x.numel() % known != 0) {
      fail("[reshape] expected sizes that divide {} elements, got {}", x.numel(), to_string(shape));
    }
    full[unknown] = x.numel() / known;
  }
  if (full == x.shape()) return x;
  return apply1(op, {x}, op::ShapeAttrs{full});
}

Tensor flatten(const Tensor& x, int from) {
  const int rank = x.rank();
  check(-rank <= from && from <= rank, "[flatten] expected a first axis from {} to {}, got {}", -rank, rank, from);
  const int first = from < 0 ? from + rank : from;
  Shape shape;
  for (int i = 0; i < first; ++i) shape.push_back(x.shape()[i]);
  std::int64_t size = 1;  // not -1: an empty batch has features too
  for (int i = first; i < rank; ++i) size *= x.shape()[i];
  shape.push_back(size);
  return reshape(x, shape);
}

Tensor transpose(const Tensor& x, const Shape& order) {
  static const OpDef& op = find_op("transpose");
  return apply1(op, {x}, op::TransposeAttrs{order});
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  static const OpDef& op = find_op("broadcast_to");
  if (x.shape() == shape) return x;
  return apply1(op, {x}, op::ShapeAttrs{shape});
}

Tensor concat(std::span<const Tensor> xs, std::int64_t axis) {
  static const OpDef& op = find_op("concat");
  return apply(op, xs, op::AxisAttrs{axis})[0];
}

Tensor stack(std::span<const Tensor> xs, std::int64_t axis) {
  return apply(named_op<"stack">(), xs, op::AxisAttrs{axis})[0];
}

namespace {

Shape transpose_order(const Shape& order, int rank) {
  if (!order.empty() || rank == 0) {
    check(order.rank() == rank, "[transpose] expected {} axes, got {}", rank, to_string(order));
  }
  Shape out;
  bool used[kMaxRank] = {};
  for (int i = 0; i < rank; ++i) {
    const int axis = order.empty() ? rank - 1 - i : normalize_axis(order[i], rank, "transpose");
    check(!used[axis], "[transpose] expected every axis once, got {}", to_string(order));
    used[axis] = true;
    out.push_back(axis);
  }
  return out;
}

Types infer_reshape(const InferCall& call) {
  const Shape& shape = call.attrs.as<op::ShapeAttrs>().shape;
  check_size(shape, size_of(call.in[0].dtype), "reshape");
  check(shape.numel() == call.in[0].shape.numel(), "[reshape] expected {} elements as in {}, got {}",
        call.in[0].shape.numel(), to_string(call.in[0].shape), to_string(shape));
  return {TensorType{call.in[0].dtype, shape}};
}

// A split is kept on a dimension that is unchanged, as are those before it except sizes of 1.
// A dimension that the new shape has too, with as many elements before it, stays split.
ShardRule shard_reshape(const ShardCall& call) {
  const Layout now = call.layouts[0];
  if (now.is_partial()) return {{now}, {now}};
  if (!now.is_split()) return rules::shard_replicated(call);
  const Shape &from = call.in[0].shape, &to = call.out[0].shape;
  const std::int64_t before = op::elements_before(from, now.dim);
  for (int d = 0; d < to.rank(); ++d) {
    if (to[d] == from[now.dim] && op::elements_before(to, d) == before) return {{now}, {Layout::split(d)}};
  }
  return rules::shard_replicated(call);
}

// Reshape as a view: old and new dimensions are matched in groups of equal size; the old ones of a group must be
// contiguous with each other.
std::optional<View> view_reshape(const ViewCall& call) {
  const Shape& to = call.attrs.as<op::ShapeAttrs>().shape;
  if (is_contiguous(call.shape, call.strides)) return View{to, contiguous_strides(to)};
  if (to.numel() == 0) return std::nullopt;
  View view{to, Shape::filled(to.rank(), 1)};
  int old = call.shape.rank() - 1, fresh = to.rank() - 1;
  while (old >= 0) {
    std::int64_t size = call.shape[old], stride = call.strides[old], left = 1;
    for (; old > 0 && (call.shape[old - 1] == 1 || size == 1 || call.strides[old - 1] == stride * size); --old) {
      if (size == 1) stride = call.strides[old - 1];
      size *= call.shape[old - 1];
    }
    --old;
    for (; fresh >= 0 && left * to[fresh] <= size; --fresh) {
      view.strides[fresh] = stride * left;
      left *= to[fresh];
    }
    if (left != size) return std::nullopt;
  }
  return view;
}

Types infer_transpose(const InferCall& call) {
  const Shape order = transpose_order(call.attrs.as<op::TransposeAttrs>().order, call.in[0].shape.rank());
  Shape shape;
  for (auto axis : order) shape.push_back(call.in[0].shape[static_cast<int>(axis)]);
  return {TensorType{call.in[0].dtype, shape}};
}

std::optional<View> view_transpose(const ViewCall& call) {
  View view;
  for (auto axis : transpose_order(call.attrs.as<op::TransposeAttrs>().order, call.shape.rank())) {
    view.shape.push_back(call.shape[static_cast<int>(axis)]);
    view.strides.push_back(call.strides[static_cast<int>(axis)]);
  }
  return view;
}

TensorList grad_transpose(const GradCall& c) {
  const Shape order = transpose_order(c.attrs.as<op::TransposeAttrs>().order, c.in[0].rank());
  Shape inverse = Shape::filled(order.rank(), 0);
  for (int i = 0; i < order.rank(); ++i) inverse[static_cast<int>(order[i])] = i;
  return {transpose(c.grads[0], inverse)};
}

ShardRule shard_transpose(const ShardCall& call) {
  if (!call.layouts[0].is_split()) return {{call.layouts[0]}, {call.layouts[0]}};
  const Shape order = transpose_order(call.attrs.as<op::TransposeAttrs>().order, call.in[0].shape.rank());
  for (int i = 0; i < order.rank(); ++i) {
    if (order[i] == call.layouts[0].dim) return {{call.layouts[0]}, {Layout::split(i)}};
  }
  return rules::shard_replicated(call);
}

Types infer_broadcast_to(const InferCall& call) {
  const Shape& shape = call.attrs.as<op::ShapeAttrs>().shape;
  check(broadcast_shapes(call.in[0].shape, shape, "broadcast_to") == shape,
        "[broadcast_to] expected a shape that {} stretches to, got {}", to_string(call.in[0].shape), to_string(shape));
  return {TensorType{call.in[0].dtype, shape}};
}

std::optional<View> view_broadcast(const ViewCall& call) {
  View view{call.attrs.as<op::ShapeAttrs>().shape, {}};
  const int extra = view.shape.rank() - call.shape.rank();
  for (int i = 0; i < view.shape.rank(); ++i) {
    const bool stretched = i < extra || call.shape[i - extra] != view.shape[i];
    view.strides.push_back(stretched ? 0 : call.strides[i - extra]);
  }
  return view;
}

ShardRule shard_broadcast(const ShardCall& call) {
  if (call.layouts[0].is_partial()) return {{call.layouts[0]}, {call.layouts[0]}};
  return rules::shard_elementwise(call);
}

Types infer_concat(const InferCall& call) {
  check(!call.in.empty(), "[concat] expected at least one tensor, got none");
  rules::expect_same_dtype(call);
  Shape shape = call.in[0].shape;
  const int axis = normalize_axis(call.attrs.as<op::AxisAttrs>().axis, shape.rank(), "concat");
  for (std::size_t i = 1; i < call.in.size(); ++i) {
    const Shape& next = call.in[i].shape;
    bool fits = next.rank() == shape.rank();
    for (int d = 0; fits && d < shape.rank(); ++d) fits = d == axis || next[d] == shape[d];
    check(fits, "[concat] expected shapes that agree but for axis {}, got {} and {}", axis, to_string(call.in[0].shape),
          to_string(next));
    shape[axis] += next[axis];
  }
  return {TensorType{call.in[0].dtype, shape}};
}

TensorList grad_concat(const GradCall& c) {
  const int axis = normalize_axis(c.attrs.as<op::AxisAttrs>().axis, c.in[0].rank(), "concat");
  TensorList grads;
  std::int64_t at = 0;
  for (const auto& x : c.in) {
    const auto size = x.shape()[axis];
    grads.push_back(slice(c.grads[0], {.axis = axis, .begin = at, .end = at + size}));
    at += size;
  }
  return grads;
}

Types infer_stack(const InferCall& call) {
  check(!call.in.empty(), "[stack] expected at least one tensor, got none");
  for (const auto& type : call.in) {
    check(type == call.in[0], "[stack] expected tensors alike, got {} and {}", to_string(call.in[0]), to_string(type));
  }
  Shape shape = call.in[0].shape;
  check(shape.rank() < kMaxRank, "[stack] expected a rank below {}, got {}", kMaxRank, to_string(call.in[0]));
  shape.insert(normalize_axis(call.attrs.as<op::AxisAttrs>().axis, shape.rank() + 1, "stack"),
               static_cast<std::int64_t>(call.in.size()));
  return {TensorType{call.in[0].dtype, shape}};
}

TensorList grad_stack(const GradCall& c) {
  TensorList grads;
  const auto axis = c.attrs.as<op::AxisAttrs>().axis;
  for (std::size_t i = 0; i < c.in.size(); ++i) {
    const bool needed = c.needs(static_cast<int>(i));
    grads.push_back(needed ? select(c.grads[0], axis, static_cast<std::int64_t>(i)) : Tensor());
  }
  return grads;
}

std::vector<OpCase> permute_cases() {
  const auto one = [](Shape shape, Shape order) { return OpCase{{{.shape = shape}}, op::TransposeAttrs{order}}; };
  return {one({2, 3}, {}),
          one({2, 3, 4}, {1, 2, 0}),
          one({2, 0, 4}, {2, 0, 1}),
          one({5}, {}),
          one({3, 2}, {1, 0}),
          one({2, 3, 4}, {-1, 0, -2}),
          one({17, 9}, {-1, -2}),
          one({}, {}),
          one({2, 3, 2, 2}, {0, 2, 1, 3})};
}

OpDef permutation(std::string name, std::string doc) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {"x"},
          .attrs = &attr_type<op::TransposeAttrs>(),
          .infer = infer_transpose,
          .gradient = grad_transpose,
          .shard = shard_transpose,
          .view = view_transpose,
          .cases = permute_cases,
          .saves = kSavesNothing,
          .by_index = true};
}

std::vector<OpCase> shape_cases(std::initializer_list<std::pair<Shape, Shape>> shapes) {
  std::vector<OpCase> cases;
  for (const auto& [from, to] : shapes) cases.push_back({{{.shape = from}}, op::ShapeAttrs{to}});
  return cases;
}

std::vector<OpCase> join_cases(std::initializer_list<std::pair<std::vector<Shape>, std::int64_t>> joins) {
  std::vector<OpCase> cases;
  for (const auto& [shapes, axis] : joins) {
    OpCase one{{}, op::AxisAttrs{axis}};
    for (const auto& shape : shapes) one.in.push_back({.shape = shape});
    cases.push_back(std::move(one));
  }
  return cases;
}

void register_views(OpRegistry& ops) {
  ops.add({.name = "reshape",
           .doc = "The same values in row-major order under another shape.",
           .inputs = {"x"},
           .attrs = &attr_type<op::ShapeAttrs>(),
           .infer = infer_reshape,
           .gradient = [](const GradCall& c) { return TensorList{reshape(c.grads[0], c.in[0].shape())}; },
           .shard = shard_reshape,
           .view = view_reshape,
           .cases =
               [] {
                 return shape_cases({{{6}, {2, 3}},
                                     {{2, 3, 4}, {4, 6}},
                                     {{0, 3}, {3, 0}},
                                     {{1}, {}},
                                     {{}, {1, 1}},
                                     {{3, 20}, {2, 30}},
                                     {{2, 2, 2, 2}, {16}},
                                     {{4, 3}, {2, 1, 6}}});
               },
           .saves = kSavesNothing,
           .by_index = true});
  ops.add(permutation("transpose", "Dimensions in another order; reversed when none is given."));
  ops.add(permutation("permute", "transpose by another name."));
  ops.add({.name = "broadcast_to",
           .doc = "Stretches dimensions of size 1 (and adds leading ones) to a shape.",
           .inputs = {"x"},
           .attrs = &attr_type<op::ShapeAttrs>(),
           .infer = infer_broadcast_to,
           .gradient = [](const GradCall& c) { return TensorList{rules::sum_to(c.grads[0], c.in[0].shape())}; },
           .shard = shard_broadcast,
           .view = view_broadcast,
           .cases =
               [] {
                 return shape_cases({{{3}, {2, 3}},
                                     {{2, 1}, {4, 2, 3}},
                                     {{}, {5}},
                                     {{1, 3}, {0, 3}},
                                     {{0, 1}, {2, 0, 3}},
                                     {{1}, {19}},
                                     {{1, 1, 3}, {2, 4, 3}},
                                     {{2, 3}, {2, 3}},
                                     {{3, 1, 1}, {2, 3, 1, 4}}});
               },
           .saves = kSavesNothing,
           .by_index = true});
}

}  // namespace

void register_ops_shape_ops(OpRegistry& ops) {
  register_views(ops);
  ops.add({.name = "concat",
           .doc = "Tensors one after another along an axis.",
           .inputs = {"xs..."},
           .attrs = &attr_type<op::AxisAttrs>(),
           .infer = infer_concat,
           .gradient = grad_concat,
           .shard =
               [](const ShardCall& call) { return rules::shard_other_axes(call, call.attrs.as<op::AxisAttrs>().axis); },
           .cases =
               [] {
                 return join_cases({{{{2}, {3}}, 0},
                                    {{{2, 3}, {2, 1}, {2, 4}}, -1},
                                    {{{0, 3}, {2, 3}}, 0},
                                    {{{3, 2}}, 0},
                                    {{{2, 2, 3}, {2, 1, 3}}, 1},
                                    {{{3, 17}, {3, 20}}, 1},
                                    {{{1}, {2}, {3}, {4}, {5}}, -1},
                                    {{{0}, {0}}, 0}});
               },
           .saves = kSavesNothing,
           .cost = costs::moves(),
           .precision = Width::as_given});
  ops.add({.name = "stack",
           .doc = "Tensors alike along a new axis.",
           .inputs = {"xs..."},
           .attrs = &attr_type<op::AxisAttrs>(),
           .infer = infer_stack,
           .gradient = grad_stack,
           .shard =
               [](const ShardCall& call) {
                 const int dim = rules::split_dim(call);
                 const int axis =
                     normalize_axis(call.attrs.as<op::AxisAttrs>().axis, call.out[0].shape.rank(), "stack");
                 return rules::shard_kept(call, dim, axis <= dim ? dim + 1 : dim);
               },
           .cases =
               [] {
                 return join_cases({{{{3}, {3}}, 0},
                                    {{{2, 3}, {2, 3}, {2, 3}}, -1},
                                    {{{2, 3}, {2, 3}}, 1},
                                    {{{}, {}, {}}, 0},
                                    {{{0, 3}, {0, 3}}, 1},
                                    {{{4}}, -2},
                                    {{{2, 19}, {2, 19}}, 0},
                                    {{{2, 2, 3}, {2, 2, 3}}, 2}});
               },
           .saves = kSavesNothing,
           .cost = costs::moves(),
           .precision = Width::as_given});
}

}  // namespace starling
