#include "starling/ops/api/views.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "starling/base/error.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

// Axes are resolved here even if the caller gives none: a piece of a tensor may have more sizes of 1 than the whole.
Tensor squeeze(const Tensor& x, const Shape& axes) {
  Shape named = axes;
  for (int i = 0; axes.empty() && i < x.rank(); ++i) {
    if (x.shape()[i] == 1) named.push_back(i);
  }
  if (named.empty()) return x;
  return apply1(named_op<"squeeze">(), {x}, op::AxesAttrs{named});
}
Tensor unsqueeze(const Tensor& x, const Shape& axes) {
  return apply1(named_op<"unsqueeze">(), {x}, op::AxesAttrs{axes});
}
Tensor permute(const Tensor& x, const Shape& order) { return transpose(x, order); }

Tensor swapaxes(const Tensor& x, std::int64_t a, std::int64_t b) {
  Shape order;
  for (int i = 0; i < x.rank(); ++i) order.push_back(i);
  std::swap(order[normalize_axis(a, x.rank(), "swapaxes")], order[normalize_axis(b, x.rank(), "swapaxes")]);
  return transpose(x, order);
}

Tensor movedim(const Tensor& x, std::int64_t from, std::int64_t to) {
  Shape order;
  const int axis = normalize_axis(from, x.rank(), "movedim"), place = normalize_axis(to, x.rank(), "movedim");
  for (int i = 0; i < x.rank(); ++i) {
    if (i != axis) order.push_back(i);
  }
  order.insert(place, axis);
  return transpose(x, order);
}

Tensor expand(const Tensor& x, const Shape& shape) {
  Shape full = shape;
  const int extra = shape.rank() - x.rank();
  for (int i = 0; i < shape.rank(); ++i) {
    if (shape[i] != -1) continue;
    if (i < extra) fail("[expand] expected sizes for the leading axes, got {}", to_string(shape));
    full[i] = x.shape()[i - extra];
  }
  return broadcast_to(x, full);
}

Tensor diagonal(const Tensor& x, const op::DiagonalAttrs& attrs) { return apply1(named_op<"diagonal">(), {x}, attrs); }
Tensor diag_embed(const Tensor& x, const op::DiagonalAttrs& attrs) {
  return apply1(named_op<"diag_embed">(), {x}, attrs);
}

namespace {

struct TwoAxes {
  int first;
  int second;
};

TwoAxes two_axes(const op::DiagonalAttrs& a, int rank, const char* who) {
  const TwoAxes axes{normalize_axis(a.axis1, rank, who), normalize_axis(a.axis2, rank, who)};
  check(axes.first != axes.second, "[{}] expected two different axes, got {} and {}", who, a.axis1, a.axis2);
  return axes;
}

// Mask of the axes that a squeeze drops, or that an unsqueeze adds to its result.
std::array<bool, kMaxRank> marked(const Shape& axes, int rank, const char* who) {
  std::array<bool, kMaxRank> marks{};
  for (auto axis : axes) {
    bool& mark = marks[static_cast<std::size_t>(normalize_axis(axis, rank, who))];
    check(!mark, "[{}] expected every axis once, got {}", who, to_string(axes));
    mark = true;
  }
  return marks;
}

std::array<bool, kMaxRank> dropped(const Shape& axes, const Shape& shape) {
  auto drop = marked(axes, shape.rank(), "squeeze");
  for (int i = 0; i < shape.rank(); ++i) {
    bool& mark = drop[static_cast<std::size_t>(i)];
    if (axes.empty()) mark = shape[i] == 1;
    check(!mark || shape[i] == 1, "[squeeze] expected axis {} of size 1, got {}", i, to_string(shape));
  }
  return drop;
}

View view_of_squeeze(const Shape& axes, const Shape& shape, const Shape& strides) {
  const auto drop = dropped(axes, shape);
  View view;
  for (int i = 0; i < shape.rank(); ++i) {
    if (drop[static_cast<std::size_t>(i)]) continue;
    view.shape.push_back(shape[i]);
    view.strides.push_back(strides[i]);
  }
  return view;
}

View view_of_unsqueeze(const Shape& axes, const Shape& shape, const Shape& strides) {
  const int rank = shape.rank() + axes.rank();
  check(rank <= kMaxRank, "[unsqueeze] expected a result of rank at most {}, got {}", kMaxRank, rank);
  const auto made = marked(axes, rank, "unsqueeze");
  View view;
  for (int i = 0, from = 0; i < rank; ++i) {
    const bool fresh = made[static_cast<std::size_t>(i)];
    view.shape.push_back(fresh ? 1 : shape[from]);
    view.strides.push_back(fresh ? 1 : strides[from]);
    from += !fresh;
  }
  return view;
}

// Sharding of views that drop or add axes of size 1: maps each kept axis of `from`.
ShardRule shard_through(const ShardCall& call, const Shape& from, const Shape& axes, bool drops) {
  if (call.layouts[0].is_partial()) return {{call.layouts[0]}, {call.layouts[0]}};
  if (!call.layouts[0].is_split()) return rules::shard_replicated(call);
  const auto marks = drops ? dropped(axes, from) : marked(axes, from.rank(), "unsqueeze");
  for (int i = 0, kept = 0; i < from.rank(); ++i) {
    if (marks[static_cast<std::size_t>(i)]) continue;
    const int in = drops ? i : kept, out = drops ? kept : i;
    if (in == call.layouts[0].dim) return {{call.layouts[0]}, {Layout::split(out)}};
    ++kept;
  }
  return rules::shard_replicated(call);
}

Shape without(const Shape& shape, TwoAxes axes) {
  Shape out = shape;
  out.erase(std::max(axes.first, axes.second));
  out.erase(std::min(axes.first, axes.second));
  return out;
}

View view_of_diagonal(const op::DiagonalAttrs& a, const Shape& shape, const Shape& strides) {
  const TwoAxes axes = two_axes(a, shape.rank(), "diagonal");
  const op::DiagonalLine line = op::diagonal_line(a, shape, strides, "diagonal");
  View view{without(shape, axes), without(strides, axes), line.begin};
  view.shape.push_back(line.count);
  view.strides.push_back(line.stride);
  return view;
}

Types infer_diag_embed(const InferCall& call) {
  const auto& a = call.attrs.as<op::DiagonalAttrs>();
  const Shape& in = call.in[0].shape;
  check(in.rank() >= 1 && in.rank() < kMaxRank, "[diag_embed] expected a rank of 1 to {}, got {}", kMaxRank - 1,
        to_string(call.in[0]));
  const TwoAxes axes = two_axes(a, in.rank() + 1, "diag_embed");
  constexpr std::int64_t kMost = std::int64_t{1} << 40;
  check(a.offset > -kMost && a.offset < kMost, "[diag_embed] expected an offset within ±2^40, got {}", a.offset);
  const std::int64_t side = in.back() + std::abs(a.offset);
  Shape out = in;
  out.erase(in.rank() - 1);
  out.insert(std::min(axes.first, axes.second), side);
  out.insert(std::max(axes.first, axes.second), side);
  return {TensorType{call.in[0].dtype, out}};
}

// dy embedded in the two axes the diagonal was taken from, which need not be square.
TensorList grad_diagonal(const GradCall& c) {
  const auto& a = c.attrs.as<op::DiagonalAttrs>();
  const Shape& shape = c.in[0].shape();
  const TwoAxes axes = two_axes(a, shape.rank(), "diagonal");
  if (c.grads[0].shape().back() == 0) return {full(shape, 0, c.in[0].dtype())};
  Tensor dx = diag_embed(c.grads[0], {a.offset, axes.first, axes.second});
  for (const int axis : {axes.first, axes.second}) {
    const auto have = dx.shape()[axis], want = shape[axis];
    if (have > want) dx = narrow(dx, axis, 0, want);
    if (have < want) {
      dx = apply1(named_op<"slice_backward">(), {dx}, [&] {
        Shape whole = dx.shape();
        whole[axis] = want;
        return op::SliceBackwardAttrs{whole, axis, 0, have, 1};
      }());
    }
  }
  return {dx};
}

std::vector<OpCase> diagonal_cases() {
  const auto one = [](Shape shape, op::DiagonalAttrs attrs = {}) { return OpCase{{{.shape = shape}}, attrs}; };
  return {one({4, 4}),
          one({3, 5}, {.offset = 1}),
          one({5, 3}, {.offset = -2}),
          one({2, 3, 4}, {.offset = 0, .axis1 = 0, .axis2 = 2}),
          one({4, 2, 3}, {.offset = -1, .axis1 = 2, .axis2 = 0}),
          one({0, 3}),
          one({3, 3}, {.offset = 5}),
          one({20, 21}, {.offset = -1, .axis1 = 1, .axis2 = 0})};
}

std::vector<OpCase> diag_embed_cases() {
  const auto one = [](Shape shape, op::DiagonalAttrs attrs = {}) { return OpCase{{{.shape = shape}}, attrs}; };
  return {one({4}),
          one({2, 3}, {.offset = 1}),
          one({2, 3}, {.offset = -2}),
          one({2, 3}, {.offset = 0, .axis1 = 0, .axis2 = 2}),
          one({2, 3}, {.offset = -1, .axis1 = 1, .axis2 = 0}),
          one({0}),
          one({1}, {.offset = 1}),
          one({18}, {.offset = 0, .axis1 = 1, .axis2 = 0})};
}

void register_squeezes(OpRegistry& ops) {
  const auto one = [](Shape shape, Shape axes) { return OpCase{{{.shape = shape}}, op::AxesAttrs{axes}}; };
  ops.add(
      {.name = "squeeze",
       .doc = "Without the given axes of size 1, or without all of them.",
       .inputs = {"x"},
       .attrs = &attr_type<op::AxesAttrs>(),
       .infer =
           [](const InferCall& call) {
             const Shape& shape = call.in[0].shape;
             return Types{{call.in[0].dtype, view_of_squeeze(call.attrs.as<op::AxesAttrs>().axes, shape, shape).shape}};
           },
       .gradient = [](const GradCall& c) { return TensorList{reshape(c.grads[0], c.in[0].shape())}; },
       .shard =
           [](const ShardCall& call) {
             const Shape& axes = call.attrs.as<op::AxesAttrs>().axes;
             if (axes.empty() && call.layouts[0].is_split()) return rules::shard_replicated(call);
             return shard_through(call, call.in[0].shape, axes, true);
           },
       .view = [](const ViewCall& c) -> std::optional<View> {
         return view_of_squeeze(c.attrs.as<op::AxesAttrs>().axes, c.shape, c.strides);
       },
       .cases =
           [one] {
             return std::vector<OpCase>{one({1, 3}, {0}),        one({3, 1, 2}, {1}),  one({1, 3, 1}, {}),
                                        one({1, 3, 1}, {-1, 0}), one({4}, {}),         one({1, 1}, {0, 1}),
                                        one({0, 1}, {1}),        one({2, 1, 19}, {-2})};
           },
       .saves = kSavesNothing});
  ops.add({.name = "unsqueeze",
           .doc = "With axes of size 1 at the given places of the result.",
           .inputs = {"x"},
           .attrs = &attr_type<op::AxesAttrs>(),
           .infer =
               [](const InferCall& call) {
                 const Shape& shape = call.in[0].shape;
                 return Types{
                     {call.in[0].dtype, view_of_unsqueeze(call.attrs.as<op::AxesAttrs>().axes, shape, shape).shape}};
               },
           .gradient = [](const GradCall& c) { return TensorList{reshape(c.grads[0], c.in[0].shape())}; },
           .shard =
               [](const ShardCall& call) {
                 return shard_through(call, call.out[0].shape, call.attrs.as<op::AxesAttrs>().axes, false);
               },
           .view = [](const ViewCall& c) -> std::optional<View> {
             return view_of_unsqueeze(c.attrs.as<op::AxesAttrs>().axes, c.shape, c.strides);
           },
           .cases =
               [one] {
                 return std::vector<OpCase>{one({3}, {0}), one({3}, {-1}),    one({2, 3}, {1}), one({2, 3}, {0, 2, 4}),
                                            one({}, {0}),  one({0, 2}, {-3}), one({2, 3}, {}),  one({3, 19}, {1, -1})};
               },
           .saves = kSavesNothing});
}

}  // namespace

op::DiagonalLine op::diagonal_line(const op::DiagonalAttrs& a, const Shape& shape, const Shape& strides,
                                   const char* who) {
  const TwoAxes axes = two_axes(a, shape.rank(), who);
  const std::int64_t rows = shape[axes.first], cols = shape[axes.second];
  op::DiagonalLine line;
  line.stride = strides[axes.first] + strides[axes.second];
  if (a.offset >= cols || a.offset <= -rows) return line;
  const std::int64_t right = std::max<std::int64_t>(a.offset, 0), down = std::max<std::int64_t>(-a.offset, 0);
  line.count = std::min(rows - down, cols - right);
  line.begin = line.count > 0 ? down * strides[axes.first] + right * strides[axes.second] : 0;
  return line;
}

void register_ops_views(OpRegistry& ops) {
  register_squeezes(ops);
  ops.add({.name = "diagonal",
           .doc = "A diagonal of two axes, as the last axis of the result.",
           .inputs = {"x"},
           .attrs = &attr_type<op::DiagonalAttrs>(),
           .infer =
               [](const InferCall& call) {
                 const Shape& shape = call.in[0].shape;
                 const auto& a = call.attrs.as<op::DiagonalAttrs>();
                 const Shape still = Shape::filled(shape.rank(), 0);  // strides do not matter here
                 return Types{{call.in[0].dtype, view_of_diagonal(a, shape, still).shape}};
               },
           .gradient = grad_diagonal,
           .view = [](const ViewCall& c) -> std::optional<View> {
             return view_of_diagonal(c.attrs.as<op::DiagonalAttrs>(), c.shape, c.strides);
           },
           .cases = diagonal_cases,
           .saves = kSavesNothing});
  ops.add(
      {.name = "diag_embed",
       .doc = "Zeros but for x's last axis along a diagonal of two new axes.",
       .inputs = {"x"},
       .attrs = &attr_type<op::DiagonalAttrs>(),
       .infer = infer_diag_embed,
       .gradient = [](const GradCall& c) { return TensorList{diagonal(c.grads[0], c.attrs.as<op::DiagonalAttrs>())}; },
       .cases = diag_embed_cases,
       .saves = kSavesNothing,
       .cost = costs::moves(),
       .precision = Width::wide});
}

}  // namespace starling
