#include "starling/ops/api/slice.h"

#include "starling/base/error.h"
#include "starling/ops/api/indexing.h"
#include "starling/ops/api/views.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor slice(const Tensor& x, const op::SliceAttrs& attrs) { return apply1(named_op<"slice">(), {x}, attrs); }

Tensor slice(const Tensor& x, std::span<const op::SliceAttrs> attrs) {
  Tensor out = x;
  for (const auto& one : attrs) out = slice(out, one);
  return out;
}

Tensor narrow(const Tensor& x, std::int64_t axis, std::int64_t begin, std::int64_t size) {
  const auto whole = x.shape()[normalize_axis(axis, x.rank(), "narrow")];
  if (begin < 0 || size < 0 || begin > whole || size > whole - begin) {
    fail("[narrow] expected begin and size within {}, got {} and {}", whole, begin, size);
  }
  return slice(x, {.axis = axis, .begin = begin, .end = begin + size});
}

Tensor select(const Tensor& x, std::int64_t axis, std::int64_t index) {
  const auto size = x.shape()[normalize_axis(axis, x.rank(), "select")];
  if (index < -size || index >= size) fail("[select] expected an index in [{}, {}), got {}", -size, size, index);
  return squeeze(narrow(x, axis, index < 0 ? index + size : index, 1), {axis});
}

std::vector<Tensor> split(const Tensor& x, std::int64_t count, std::int64_t axis) {
  const auto size = x.shape()[normalize_axis(axis, x.rank(), "split")];
  if (count < 1 || count > std::max<std::int64_t>(size, 1)) {
    fail("[split] expected a number of pieces in [1, {}], got {}", std::max<std::int64_t>(size, 1), count);
  }
  std::vector<Tensor> pieces;
  for (std::int64_t i = 0; i < count; ++i) {
    pieces.push_back(apply1(named_op<"split">(), {x}, op::SplitAttrs{axis, count, i}));
  }
  return pieces;
}

std::vector<Tensor> split(const Tensor& x, std::span<const std::int64_t> sizes, std::int64_t axis) {
  const auto whole = x.shape()[normalize_axis(axis, x.rank(), "split")];
  std::vector<Tensor> pieces;
  std::int64_t at = 0;
  for (auto size : sizes) {
    if (size < 0 || size > whole - at) fail("[split] expected sizes that add up to {}, got {} at {}", whole, size, at);
    pieces.push_back(narrow(x, axis, at, size));
    at += size;
  }
  check(at == whole, "[split] expected sizes that add up to {}, got {}", whole, at);
  return pieces;
}

std::vector<Tensor> unbind(const Tensor& x, std::int64_t axis) {
  const auto size = x.shape()[normalize_axis(axis, x.rank(), "unbind")];
  std::vector<Tensor> parts;
  for (std::int64_t i = 0; i < size; ++i) parts.push_back(select(x, axis, i));
  return parts;
}

const Tensor Tensor::operator[](std::int64_t position) const { return (*this)[{Index(position)}]; }

const Tensor Tensor::operator[](std::initializer_list<Index> places) const {
  check(defined(), "[index] expected a tensor, got an empty handle");
  check(static_cast<int>(places.size()) <= rank(), "[index] expected at most {} places for {}, got {}", rank(),
        to_string(type()), places.size());
  Tensor out = *this;
  std::int64_t axis = 0;  // of `out`, which loses an axis for every position
  std::int64_t given = 0;
  for (const Index& place : places) {
    const std::int64_t size = shape()[static_cast<int>(given)];
    if (place.range()) {
      out = slice(out, place.slice(axis++));
    } else {
      check(place.position() >= -size && place.position() < size,
            "[index] expected a position in [{}, {}) for axis {} of {}, got {}", -size, size, given, to_string(type()),
            place.position());
      out = select(out, axis, place.position());
    }
    ++given;
  }
  return out;
}

op::SliceRange op::slice_range(const op::SliceAttrs& a, std::int64_t size) {
  check(a.step != 0, "[slice] expected a step other than 0, got 0");
  const auto inside = [&](std::int64_t place, std::int64_t least, std::int64_t most) {
    return place >= least && place <= most;
  };
  const bool forward = a.step > 0;
  const bool known =
      (a.begin == kToEnd || inside(a.begin, -size, size)) && (a.end == kToEnd || inside(a.end, -size, size));
  check(known, "[slice] expected begin and end within [{}, {}], got {} and {}", -size, size, a.begin, a.end);
  std::int64_t begin = a.begin < 0 ? a.begin + size : a.begin;
  std::int64_t end = a.end < 0 ? a.end + size : a.end;
  if (a.begin == kToEnd) begin = forward ? 0 : size - 1;
  if (a.end == kToEnd) end = forward ? size : -1;
  if (forward) {
    check(begin <= end, "[slice] expected begin ≤ end, got {} and {} of {}", a.begin, a.end, size);
    return {begin, (end - begin) / a.step + ((end - begin) % a.step != 0)};
  }
  check(begin >= end && begin < std::max<std::int64_t>(size, 1),
        "[slice] expected end ≤ begin < {} for a step of {}, got begin {} and end {}", size, a.step, a.begin, a.end);
  const std::int64_t span = begin - end;
  // -step overflows for the most negative integer; such a step takes one element of any span.
  if (a.step < -span) return {begin, span > 0};
  return {begin, span / -a.step + (span % -a.step != 0)};
}

namespace {

Shape sliced(const op::SliceAttrs& a, const Shape& shape) {
  Shape out = shape;
  const int axis = normalize_axis(a.axis, shape.rank(), "slice");
  out[axis] = op::slice_range(a, shape[axis]).count;
  return out;
}

Types infer_slice(const InferCall& call) {
  return {TensorType{call.in[0].dtype, sliced(call.attrs.as<op::SliceAttrs>(), call.in[0].shape)}};
}

View view_of_slice(const op::SliceAttrs& a, const Shape& shape, const Shape& strides) {
  const int axis = normalize_axis(a.axis, shape.rank(), "slice");
  const op::SliceRange range = op::slice_range(a, shape[axis]);
  View view{shape, strides};
  view.shape[axis] = range.count;
  // A single element needs no stride, and a huge step times a stride would overflow.
  view.strides[axis] = range.count > 1 ? strides[axis] * a.step : strides[axis];
  view.offset = range.count > 0 ? range.begin * strides[axis] : 0;
  return view;
}

op::SliceAttrs split_range(const op::SplitAttrs& a, const Shape& shape) {
  const auto size = shape[normalize_axis(a.axis, shape.rank(), "split")];
  check(a.count > 0 && size % a.count == 0, "[split] expected a count that divides {}, got {}", size, a.count);
  check(a.index >= 0 && a.index < a.count, "[split] expected an index in [0, {}), got {}", a.count, a.index);
  const auto piece = size / a.count;
  return {a.axis, a.index * piece, (a.index + 1) * piece, 1};
}

TensorList grad_of_slice(const GradCall& c, const op::SliceAttrs& a) {
  return {apply1(named_op<"slice_backward">(), {c.grads[0]},
                 op::SliceBackwardAttrs{c.in[0].shape(), a.axis, a.begin, a.end, a.step})};
}

op::SliceAttrs taken(const op::SliceBackwardAttrs& a) { return {a.axis, a.begin, a.end, a.step}; }

Types infer_slice_backward(const InferCall& call) {
  const auto& a = call.attrs.as<op::SliceBackwardAttrs>();
  check_size(a.shape, size_of(call.in[0].dtype), "slice_backward");
  const Shape dy = sliced(taken(a), a.shape);
  check(call.in[0].shape == dy, "[slice_backward] expected dy {}, got {}", to_string(dy), to_string(call.in[0].shape));
  return {TensorType{call.in[0].dtype, a.shape}};
}

std::vector<OpCase> slice_cases() {
  const auto one = [](Shape shape, op::SliceAttrs attrs) { return OpCase{{{.shape = shape}}, attrs}; };
  return {one({7}, {0, 2, 5, 1}),        one({3, 8}, {1, 1, 8, 3}),
          one({4, 2, 3}, {-1, 0, 2, 2}), one({4}, {0, 2, 2, 1}),
          one({7}, {0, -5, -1, 2}),      one({3, 20}, {1, kToEnd, kToEnd, -1}),
          one({9, 2}, {0, 7, 1, -2}),    one({5}, {0, -2, 0, -3}),
          one({0, 3}, {0, 0, 0, -1}),    one({2, 3, 40}, {.axis = 1, .begin = 1})};
}

std::vector<OpCase> slice_backward_cases() {
  std::vector<OpCase> cases;
  for (const auto& c : slice_cases()) {
    const auto& a = c.attrs.as<op::SliceAttrs>();
    const Shape& shape = c.in[0].shape;
    cases.push_back({{{.shape = sliced(a, shape)}}, op::SliceBackwardAttrs{shape, a.axis, a.begin, a.end, a.step}});
  }
  return cases;
}

void register_split(OpRegistry& ops) {
  ops.add(
      {.name = "split",
       .doc = "The index-th of `count` equal pieces along an axis.",
       .inputs = {"x"},
       .attrs = &attr_type<op::SplitAttrs>(),
       .infer =
           [](const InferCall& call) {
             const Shape& shape = call.in[0].shape;
             return Types{{call.in[0].dtype, sliced(split_range(call.attrs.as<op::SplitAttrs>(), shape), shape)}};
           },
       .gradient =
           [](const GradCall& c) {
             return grad_of_slice(c, split_range(c.attrs.as<op::SplitAttrs>(), c.in[0].shape()));
           },
       .shard =
           [](const ShardCall& call) { return rules::shard_other_axes(call, call.attrs.as<op::SplitAttrs>().axis); },
       .view = [](const ViewCall& c) -> std::optional<View> {
         return view_of_slice(split_range(c.attrs.as<op::SplitAttrs>(), c.shape), c.shape, c.strides);
       },
       .cases =
           [] {
             const auto one = [](Shape shape, op::SplitAttrs attrs) { return OpCase{{{.shape = shape}}, attrs}; };
             return std::vector<OpCase>{one({6}, {0, 2, 1}),     one({2, 9}, {1, 3, 0}),    one({2, 9}, {-1, 3, 2}),
                                        one({4, 3}, {0, 1, 0}),  one({4, 3, 2}, {0, 4, 3}), one({0, 3}, {0, 2, 1}),
                                        one({3, 40}, {1, 2, 1}), one({2, 4, 3}, {1, 2, 1})};
           },
       .saves = kSavesNothing});
}

}  // namespace

void register_ops_slice(OpRegistry& ops) {
  ops.add(
      {.name = "slice",
       .doc = "Every step-th element from begin until end along one axis; negative places count from the end.",
       .inputs = {"x"},
       .attrs = &attr_type<op::SliceAttrs>(),
       .infer = infer_slice,
       .gradient = [](const GradCall& c) { return grad_of_slice(c, c.attrs.as<op::SliceAttrs>()); },
       .shard =
           [](const ShardCall& call) { return rules::shard_other_axes(call, call.attrs.as<op::SliceAttrs>().axis); },
       .view = [](const ViewCall& c) -> std::optional<View> {
         return view_of_slice(c.attrs.as<op::SliceAttrs>(), c.shape, c.strides);
       },
       .cases = slice_cases,
       .saves = kSavesNothing});
  ops.add(
      {.name = "slice_backward",
       .doc = "Zeros of the given shape with dy where the slice was taken.",
       .inputs = {"dy"},
       .outputs = {"dx"},
       .attrs = &attr_type<op::SliceBackwardAttrs>(),
       .infer = infer_slice_backward,
       .gradient =
           [](const GradCall& c) { return TensorList{slice(c.grads[0], taken(c.attrs.as<op::SliceBackwardAttrs>()))}; },
       .shard =
           [](const ShardCall& call) {
             return rules::shard_other_axes(call, call.attrs.as<op::SliceBackwardAttrs>().axis);
           },
       .cases = slice_backward_cases,
       .saves = kSavesNothing,
       .cost = costs::moves(),
       .precision = Width::wide});
  register_split(ops);
}

}  // namespace starling
