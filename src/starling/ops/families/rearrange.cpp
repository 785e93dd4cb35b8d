#include "starling/ops/api/rearrange.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/rearrange.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor tile(const Tensor& x, const Shape& reps) { return apply1(named_op<"tile">(), {x}, op::TileAttrs{reps}); }
Tensor repeat(const Tensor& x, std::int64_t repeats, std::int64_t axis) {
  return apply1(named_op<"repeat">(), {x}, op::RepeatAttrs{repeats, axis});
}
Tensor flip(const Tensor& x, const Shape& axes) { return apply1(named_op<"flip">(), {x}, op::FlipAttrs{axes}); }
Tensor roll(const Tensor& x, const Shape& shifts, const Shape& axes) {
  return apply1(named_op<"roll">(), {x}, op::RollAttrs{shifts, axes});
}

Shape op::tile_reps(const Shape& reps, int rank) {
  Shape full = Shape::filled(rank, 1);
  for (int i = 1; i <= reps.rank(); ++i) full[rank - i] = reps[reps.rank() - i];
  return full;
}

Shape op::rolled_by(const op::RollAttrs& a, const Shape& shape) {
  check(a.shifts.rank() == a.axes.rank(), "[roll] expected one axis a shift, got shifts {} and axes {}",
        to_string(a.shifts), to_string(a.axes));
  Shape by = Shape::filled(shape.rank(), 0);
  for (int i = 0; i < a.axes.rank(); ++i) {
    const int axis = normalize_axis(a.axes[i], shape.rank(), "roll");
    const auto size = std::max<std::int64_t>(shape[axis], 1);
    const auto shift = (a.shifts[i] % size + size) % size;
    by[axis] = (by[axis] + shift) % size;
  }
  return by;
}

namespace {

std::int64_t times(std::int64_t size, std::int64_t count, const char* who) {
  std::int64_t product = 0;
  if (count < 0 || __builtin_mul_overflow(size, count, &product)) {
    fail("[{}] expected repetitions of at least 0 that can be addressed, got {} of {}", who, count, size);
  }
  return product;
}

Types infer_tile(const InferCall& call) {
  const Shape& reps = call.attrs.as<op::TileAttrs>().reps;
  Shape shape = call.in[0].shape;
  while (shape.rank() < reps.rank()) shape.insert(0, 1);
  const Shape full = op::tile_reps(reps, shape.rank());
  for (int i = 0; i < shape.rank(); ++i) shape[i] = times(shape[i], full[i], "tile");
  return {TensorType{call.in[0].dtype, shape}};
}

// Sums the middle of [before, a, b, after] over its first or second part.
Tensor summed_parts(const Tensor& dy, int axis, std::int64_t a, std::int64_t b, bool first) {
  std::int64_t before = 1, after = 1;
  Shape shape = dy.shape();
  for (int i = 0; i < axis; ++i) before *= shape[i];
  for (int i = axis + 1; i < shape.rank(); ++i) after *= shape[i];
  shape[axis] = first ? b : a;
  return reshape(sum(reshape(dy, {before, a, b, after}), {.axes = {first ? 1 : 2}}), shape);
}

TensorList grad_tile(const GradCall& c) {
  Tensor dx = c.grads[0];
  const Shape reps = op::tile_reps(c.attrs.as<op::TileAttrs>().reps, dx.rank());
  for (int i = 0; i < dx.rank(); ++i) {
    const int own = i - (dx.rank() - c.in[0].rank());
    const auto size = own < 0 ? 1 : c.in[0].shape()[own];
    if (reps[i] != 1) dx = summed_parts(dx, i, reps[i], size, true);
  }
  return {reshape(dx, c.in[0].shape())};
}

Types infer_repeat(const InferCall& call) {
  const auto& a = call.attrs.as<op::RepeatAttrs>();
  Shape shape = call.in[0].shape;
  const int axis = normalize_axis(a.axis, shape.rank(), "repeat");
  shape[axis] = times(shape[axis], a.repeats, "repeat");
  return {TensorType{call.in[0].dtype, shape}};
}

TensorList grad_repeat(const GradCall& c) {
  const auto& a = c.attrs.as<op::RepeatAttrs>();
  const int axis = normalize_axis(a.axis, c.in[0].rank(), "repeat");
  return {summed_parts(c.grads[0], axis, c.in[0].shape()[axis], a.repeats, false)};
}

Types infer_flip(const InferCall& call) {
  const Shape& axes = call.attrs.as<op::FlipAttrs>().axes;
  if (!axes.empty()) op::reduced_axes(axes, call.in[0].shape.rank(), "flip");
  return {call.in[0]};
}

TensorList grad_roll(const GradCall& c) {
  const Shape by = op::rolled_by(c.attrs.as<op::RollAttrs>(), c.in[0].shape());
  op::RollAttrs back;
  for (int i = 0; i < by.rank(); ++i) {
    back.shifts.push_back(-by[i]);
    back.axes.push_back(i);
  }
  return {roll(c.grads[0], back.shifts, back.axes)};
}

void register_copies(OpRegistry& ops) {
  ops.add({.name = "tile",
           .doc = "The whole tensor again and again along each axis.",
           .inputs = {"x"},
           .attrs = &attr_type<op::TileAttrs>(),
           .infer = infer_tile,
           .gradient = grad_tile,
           .shard =
               [](const ShardCall& call) {
                 const int dim = rules::split_dim(call), rank = call.out[0].shape.rank();
                 const int out = dim + rank - call.in[0].shape.rank();
                 const bool once = dim >= 0 && op::tile_reps(call.attrs.as<op::TileAttrs>().reps, rank)[out] == 1;
                 return rules::shard_kept(call, dim, once ? out : -1);
               },
           .cases =
               [] {
                 const auto one = [](Shape shape, Shape reps) {
                   return OpCase{{{.shape = shape}}, op::TileAttrs{reps}};
                 };
                 return std::vector<OpCase>{one({3}, {2}),        one({2, 3}, {2, 2}),
                                            one({2, 3}, {3}),     one({2}, {2, 3, 1}),
                                            one({}, {4}),         one({0, 2}, {2, 3}),
                                            one({3, 2}, {0, 2}),  one({2, 2, 2}, {2, 1, 3}),
                                            one({2, 19}, {2, 1}), one({1, 2, 1, 2, 2}, {2, 2, 3, 1, 2}),
                                            one({2, 3}, {})};
               },
           .saves = kSavesNothing,
           .cost = costs::moves(),
           .precision = Width::as_given});
  ops.add(
      {.name = "repeat",
       .doc = "Each element again and again along an axis.",
       .inputs = {"x"},
       .attrs = &attr_type<op::RepeatAttrs>(),
       .infer = infer_repeat,
       .gradient = grad_repeat,
       .shard =
           [](const ShardCall& call) { return rules::shard_other_axes(call, call.attrs.as<op::RepeatAttrs>().axis); },
       .cases =
           [] {
             const auto one = [](Shape shape, op::RepeatAttrs a) { return OpCase{{{.shape = shape}}, a}; };
             return std::vector<OpCase>{one({3}, {2, 0}),        one({2, 3}, {3, 1}), one({2, 3}, {2, 0}),
                                        one({2, 3, 2}, {2, -2}), one({0, 3}, {2, 0}), one({3}, {0, 0}),
                                        one({4, 2}, {1, -1}),    one({3, 9}, {4, 1}), one({2, 19}, {3, 0})};
           },
       .saves = kSavesNothing,
       .cost = costs::moves(),
       .precision = Width::as_given});
}

}  // namespace

void register_ops_rearrange(OpRegistry& ops) {
  register_copies(ops);
  ops.add({.name = "flip",
           .doc = "The elements of the given axes backwards.",
           .inputs = {"x"},
           .attrs = &attr_type<op::FlipAttrs>(),
           .infer = infer_flip,
           .gradient = [](const GradCall& c) { return TensorList{apply1(c.op, {c.grads[0]}, c.attrs)}; },
           .shard =
               [](const ShardCall& call) {
                 const int dim = rules::split_dim(call);
                 bool turned = false;
                 for (auto axis : call.attrs.as<op::FlipAttrs>().axes)
                   turned |= normalize_axis(axis, call.in[0].shape.rank(), "flip") == dim;
                 return rules::shard_kept(call, dim, turned ? -1 : dim);
               },
           .cases =
               [] {
                 const auto one = [](Shape shape, Shape axes) {
                   return OpCase{{{.shape = shape}}, op::FlipAttrs{axes}};
                 };
                 return std::vector<OpCase>{one({4}, {0}),           one({2, 3}, {1}),    one({2, 3}, {0, 1}),
                                            one({2, 3, 4}, {-1, 0}), one({2, 3, 4}, {1}), one({0, 3}, {0}),
                                            one({3, 21}, {-1}),      one({21, 3}, {0}),   one({2, 2}, {})};
               },
           .saves = kSavesNothing,
           .cost = costs::moves(),
           .precision = Width::as_given});
  ops.add({.name = "roll",
           .doc = "Element i goes to i + shift, round the axis.",
           .inputs = {"x"},
           .attrs = &attr_type<op::RollAttrs>(),
           .infer =
               [](const InferCall& call) {
                 op::rolled_by(call.attrs.as<op::RollAttrs>(), call.in[0].shape);
                 return Types{call.in[0]};
               },
           .gradient = grad_roll,
           .shard =
               [](const ShardCall& call) {
                 const int dim = rules::split_dim(call);
                 const Shape by = op::rolled_by(call.attrs.as<op::RollAttrs>(), call.in[0].shape);
                 return rules::shard_kept(call, dim, dim >= 0 && by[dim] != 0 ? -1 : dim);
               },
           .cases =
               [] {
                 const auto one = [](Shape shape, op::RollAttrs a) { return OpCase{{{.shape = shape}}, a}; };
                 return std::vector<OpCase>{one({5}, {{2}, {0}}),          one({5}, {{-1}, {0}}),
                                            one({2, 3}, {{1, 2}, {0, 1}}), one({2, 3, 4}, {{7}, {-1}}),
                                            one({0, 3}, {{1}, {0}}),       one({4, 2}, {{1, 2}, {0, 0}}),
                                            one({3, 21}, {{4}, {1}}),      one({3, 2}, {})};
               },
           .saves = kSavesNothing,
           .cost = costs::moves(),
           .precision = Width::as_given});
}

}  // namespace starling
