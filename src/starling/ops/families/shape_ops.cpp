#include "starling/ops/shape_ops.h"

#include <numeric>

#include "starling/base/error.h"
#include "starling/ops/apply.h"
#include "starling/ops/creation.h"
#include "starling/ops/reduce.h"
#include "starling/ops/registry.h"
#include "starling/ops/rules.h"

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
    if (known <= 0 || x.numel() % known != 0) {
      fail("[reshape] expected sizes that divide {} elements, got {}", x.numel(), to_string(shape));
    }
    full[unknown] = x.numel() / known;
  }
  if (full == x.shape()) return x;
  return apply1(op, {x}, ShapeAttrs{full});
}

Tensor flatten(const Tensor& x, int from) {
  Shape shape;
  for (int i = 0; i < from; ++i) shape.push_back(x.shape()[i]);
  shape.push_back(-1);
  return reshape(x, shape);
}

Tensor transpose(const Tensor& x, const Shape& order) {
  static const OpDef& op = find_op("transpose");
  return apply1(op, {x}, TransposeAttrs{order});
}

Tensor broadcast_to(const Tensor& x, const Shape& shape) {
  static const OpDef& op = find_op("broadcast_to");
  if (x.shape() == shape) return x;
  return apply1(op, {x}, ShapeAttrs{shape});
}

Tensor slice(const Tensor& x, const SliceAttrs& attrs) {
  static const OpDef& op = find_op("slice");
  return apply1(op, {x}, attrs);
}

Tensor concat(std::span<const Tensor> xs, std::int64_t axis) {
  static const OpDef& op = find_op("concat");
  return apply(op, xs, AxisAttrs{axis})[0];
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
  const Shape& shape = call.attrs.as<ShapeAttrs>().shape;
  check_size(shape, size_of(call.in[0].dtype), "reshape");
  check(shape.numel() == call.in[0].shape.numel(), "[reshape] expected {} elements as in {}, got {}",
        call.in[0].shape.numel(), to_string(call.in[0].shape), to_string(shape));
  return {TensorType{call.in[0].dtype, shape}};
}

// A leading dimension that stays the same may stay split.
ShardRule shard_reshape(const ShardCall& call) {
  if (call.placed[0].is_partial()) return {{call.placed[0]}, {call.placed[0]}};
  const Shape& from = call.in[0].shape;
  const Shape& to = call.out[0].shape;
  if (!call.placed[0].is_split() || call.placed[0].dim >= to.rank()) return rules::shard_replicated(call);
  for (int i = 0; i <= call.placed[0].dim; ++i) {
    if (from[i] != to[i]) return rules::shard_replicated(call);
  }
  return {{call.placed[0]}, {call.placed[0]}};
}

std::optional<View> view_reshape(const ViewCall& call) {
  if (!is_contiguous(call.shape, call.strides)) return std::nullopt;
  const Shape& shape = call.attrs.as<ShapeAttrs>().shape;
  return View{shape, contiguous_strides(shape)};
}

Types infer_transpose(const InferCall& call) {
  const Shape order = transpose_order(call.attrs.as<TransposeAttrs>().order, call.in[0].shape.rank());
  Shape shape;
  for (auto axis : order) shape.push_back(call.in[0].shape[static_cast<int>(axis)]);
  return {TensorType{call.in[0].dtype, shape}};
}

std::optional<View> view_transpose(const ViewCall& call) {
  View view;
  for (auto axis : transpose_order(call.attrs.as<TransposeAttrs>().order, call.shape.rank())) {
    view.shape.push_back(call.shape[static_cast<int>(axis)]);
    view.strides.push_back(call.strides[static_cast<int>(axis)]);
  }
  return view;
}

TensorList grad_transpose(const GradCall& c) {
  const Shape order = transpose_order(c.attrs.as<TransposeAttrs>().order, c.in[0].rank());
  Shape inverse = Shape::filled(order.rank(), 0);
  for (int i = 0; i < order.rank(); ++i) inverse[static_cast<int>(order[i])] = i;
  return {transpose(c.grads[0], inverse)};
}

ShardRule shard_transpose(const ShardCall& call) {
  if (!call.placed[0].is_split()) return {{call.placed[0]}, {call.placed[0]}};
  const Shape order = transpose_order(call.attrs.as<TransposeAttrs>().order, call.in[0].shape.rank());
  for (int i = 0; i < order.rank(); ++i) {
    if (order[i] == call.placed[0].dim) return {{call.placed[0]}, {Placement::split(i)}};
  }
  return rules::shard_replicated(call);
}

Types infer_broadcast_to(const InferCall& call) {
  const Shape& shape = call.attrs.as<ShapeAttrs>().shape;
  check(broadcast_shapes(call.in[0].shape, shape, "broadcast_to") == shape,
        "[broadcast_to] expected a shape that {} stretches to, got {}", to_string(call.in[0].shape), to_string(shape));
  return {TensorType{call.in[0].dtype, shape}};
}

std::optional<View> view_broadcast(const ViewCall& call) {
  View view{call.attrs.as<ShapeAttrs>().shape, {}};
  const int extra = view.shape.rank() - call.shape.rank();
  for (int i = 0; i < view.shape.rank(); ++i) {
    const bool stretched = i < extra || call.shape[i - extra] != view.shape[i];
    view.strides.push_back(stretched ? 0 : call.strides[i - extra]);
  }
  return view;
}

ShardRule shard_broadcast(const ShardCall& call) {
  if (call.placed[0].is_partial()) return {{call.placed[0]}, {call.placed[0]}};
  return rules::shard_elementwise(call);
}

void check_slice(const SliceAttrs& a, const Shape& shape) {
  const auto size = shape[normalize_axis(a.axis, shape.rank(), "slice")];
  check(a.begin >= 0 && a.begin <= a.end && a.end <= size && a.step >= 1,
        "[slice] expected 0 ≤ begin ≤ end ≤ {} and step ≥ 1, got begin {}, end {}, step {}", size, a.begin, a.end,
        a.step);
}

Types infer_slice(const InferCall& call) {
  const auto& a = call.attrs.as<SliceAttrs>();
  check_slice(a, call.in[0].shape);
  Shape shape = call.in[0].shape;
  shape[normalize_axis(a.axis, shape.rank(), "slice")] = (a.end - a.begin) / a.step + ((a.end - a.begin) % a.step != 0);
  return {TensorType{call.in[0].dtype, shape}};
}

std::optional<View> view_slice(const ViewCall& call) {
  const auto& a = call.attrs.as<SliceAttrs>();
  const int axis = normalize_axis(a.axis, call.shape.rank(), "slice");
  View view{call.shape, call.strides};
  view.offset = a.begin * call.strides[axis];
  view.shape[axis] = (a.end - a.begin) / a.step + ((a.end - a.begin) % a.step != 0);
  view.strides[axis] = call.strides[axis] * a.step;
  return view;
}

ShardRule shard_along_others(const ShardCall& call, std::int64_t axis) {
  ShardRule rule = rules::shard_replicated(call);
  const int cut = normalize_axis(axis, call.in[0].shape.rank(), call.op.name.c_str());
  const Placement from = call.placed[0];
  if (from.is_split() && from.dim == cut) return rule;
  for (const auto& placed : call.placed) {
    if (placed != from) return rule;
  }
  for (auto& in : rule.in) in = from;
  rule.out[0] = from;
  return rule;
}

Types infer_slice_backward(const InferCall& call) {
  const auto& a = call.attrs.as<SliceBackwardAttrs>();
  check_size(a.shape, size_of(call.in[0].dtype), "slice_backward");
  const SliceAttrs taken{a.axis, a.begin, a.end, a.step};
  check_slice(taken, a.shape);
  Shape dy = a.shape;
  dy[normalize_axis(a.axis, dy.rank(), "slice_backward")] =
      (a.end - a.begin) / a.step + ((a.end - a.begin) % a.step != 0);
  check(call.in[0].shape == dy, "[slice_backward] expected dy {}, got {}", to_string(dy), to_string(call.in[0].shape));
  return {TensorType{call.in[0].dtype, a.shape}};
}

Types infer_concat(const InferCall& call) {
  check(!call.in.empty(), "[concat] expected at least one tensor, got none");
  rules::expect_same_dtype(call);
  Shape shape = call.in[0].shape;
  const int axis = normalize_axis(call.attrs.as<AxisAttrs>().axis, shape.rank(), "concat");
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
  const int axis = normalize_axis(c.attrs.as<AxisAttrs>().axis, c.in[0].rank(), "concat");
  TensorList grads;
  std::int64_t at = 0;
  for (const auto& x : c.in) {
    const auto size = x.shape()[axis];
    grads.push_back(slice(c.grads[0], {.axis = axis, .begin = at, .end = at + size}));
    at += size;
  }
  return grads;
}

void register_views(OpRegistry& ops) {
  ops.add({.name = "reshape",
           .doc = "The same values in row-major order under another shape.",
           .inputs = {"x"},
           .attrs = &attr_type<ShapeAttrs>(),
           .infer = infer_reshape,
           .gradient = [](const GradCall& c) { return TensorList{reshape(c.grads[0], c.in[0].shape())}; },
           .shard = shard_reshape,
           .view = view_reshape,
           .cases =
               [] {
                 return std::vector<OpCase>{{{{.shape = {6}}}, ShapeAttrs{{2, 3}}},
                                            {{{.shape = {2, 3, 4}}}, ShapeAttrs{{4, 6}}},
                                            {{{.shape = {0, 3}}}, ShapeAttrs{{3, 0}}},
                                            {{{.shape = {1}}}, ShapeAttrs{{}}}};
               },
           .saves = kSavesNothing});
  ops.add({.name = "transpose",
           .doc = "Dimensions in another order; reversed when none is given.",
           .inputs = {"x"},
           .attrs = &attr_type<TransposeAttrs>(),
           .infer = infer_transpose,
           .gradient = grad_transpose,
           .shard = shard_transpose,
           .view = view_transpose,
           .cases =
               [] {
                 return std::vector<OpCase>{{{{.shape = {2, 3}}}, TransposeAttrs{}},
                                            {{{.shape = {2, 3, 4}}}, TransposeAttrs{{1, 2, 0}}},
                                            {{{.shape = {2, 0, 4}}}, TransposeAttrs{{2, 0, 1}}},
                                            {{{.shape = {5}}}, TransposeAttrs{}}};
               },
           .saves = kSavesNothing});
  ops.add({.name = "broadcast_to",
           .doc = "Stretches dimensions of size 1 (and adds leading ones) to a shape.",
           .inputs = {"x"},
           .attrs = &attr_type<ShapeAttrs>(),
           .infer = infer_broadcast_to,
           .gradient = [](const GradCall& c) { return TensorList{rules::sum_to(c.grads[0], c.in[0].shape())}; },
           .shard = shard_broadcast,
           .view = view_broadcast,
           .cases =
               [] {
                 return std::vector<OpCase>{{{{.shape = {3}}}, ShapeAttrs{{2, 3}}},
                                            {{{.shape = {2, 1}}}, ShapeAttrs{{4, 2, 3}}},
                                            {{{.shape = {}}}, ShapeAttrs{{5}}},
                                            {{{.shape = {1, 3}}}, ShapeAttrs{{0, 3}}}};
               },
           .saves = kSavesNothing});
}

void register_slices(OpRegistry& ops) {
  ops.add({.name = "slice",
           .doc = "Every step-th element of [begin, end) along one axis.",
           .inputs = {"x"},
           .attrs = &attr_type<SliceAttrs>(),
           .infer = infer_slice,
           .gradient =
               [](const GradCall& c) {
                 static const OpDef& op = find_op("slice_backward");
                 const auto& a = c.attrs.as<SliceAttrs>();
                 return TensorList{
                     apply1(op, {c.grads[0]}, SliceBackwardAttrs{c.in[0].shape(), a.axis, a.begin, a.end, a.step})};
               },
           .shard = [](const ShardCall& call) { return shard_along_others(call, call.attrs.as<SliceAttrs>().axis); },
           .view = view_slice,
           .cases =
               [] {
                 return std::vector<OpCase>{{{{.shape = {7}}}, SliceAttrs{0, 2, 5, 1}},
                                            {{{.shape = {3, 8}}}, SliceAttrs{1, 1, 8, 3}},
                                            {{{.shape = {4, 2, 3}}}, SliceAttrs{-1, 0, 2, 2}},
                                            {{{.shape = {4}}}, SliceAttrs{0, 2, 2, 1}}};
               },
           .saves = kSavesNothing});
  ops.add({.name = "slice_backward",
           .doc = "Zeros of the given shape with dy where the slice was taken.",
           .inputs = {"dy"},
           .outputs = {"dx"},
           .attrs = &attr_type<SliceBackwardAttrs>(),
           .infer = infer_slice_backward,
           .gradient =
               [](const GradCall& c) {
                 const auto& a = c.attrs.as<SliceBackwardAttrs>();
                 return TensorList{slice(c.grads[0], {a.axis, a.begin, a.end, a.step})};
               },
           .shard =
               [](const ShardCall& call) { return shard_along_others(call, call.attrs.as<SliceBackwardAttrs>().axis); },
           .cases =
               [] {
                 return std::vector<OpCase>{{{{.shape = {3}}}, SliceBackwardAttrs{{7}, 0, 2, 5, 1}},
                                            {{{.shape = {3, 3}}}, SliceBackwardAttrs{{3, 8}, 1, 1, 8, 3}}};
               },
           .saves = kSavesNothing});
}

}  // namespace

void register_ops_shape_ops(OpRegistry& ops) {
  register_views(ops);
  register_slices(ops);
  ops.add({.name = "concat",
           .doc = "Tensors one after another along an axis.",
           .inputs = {"xs..."},
           .attrs = &attr_type<AxisAttrs>(),
           .infer = infer_concat,
           .gradient = grad_concat,
           .shard = [](const ShardCall& call) { return shard_along_others(call, call.attrs.as<AxisAttrs>().axis); },
           .cases =
               [] {
                 return std::vector<OpCase>{{{{.shape = {2}}, {.shape = {3}}}, AxisAttrs{0}},
                                            {{{.shape = {2, 3}}, {.shape = {2, 1}}, {.shape = {2, 4}}}, AxisAttrs{-1}},
                                            {{{.shape = {0, 3}}, {.shape = {2, 3}}}, AxisAttrs{0}},
                                            {{{.shape = {3, 2}}}, AxisAttrs{0}}};
               },
           .saves = kSavesNothing});
}

}  // namespace starling
