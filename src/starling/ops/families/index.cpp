#include "starling/ops/api/index.h"

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/create.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/index.h"
#include "starling/ops/def/attrs/shape_ops.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

namespace {

Tensor wide(const Tensor& index) { return index.dtype() == DType::i32 ? cast(index, DType::i64) : index; }

// Part of src that index covers.
Tensor beside(const Tensor& src, const Tensor& index) {
  Tensor part = src;
  for (int i = 0; i < std::min(src.rank(), index.rank()); ++i) {
    if (index.shape()[i] < src.shape()[i]) part = narrow(part, i, 0, index.shape()[i]);
  }
  return part;
}

}  // namespace

Tensor gather(const Tensor& x, const Tensor& index, std::int64_t axis) {
  return apply1(named_op<"gather">(), {x, wide(index)}, op::AxisAttrs{axis});
}
Tensor scatter(const Tensor& x, const Tensor& index, const Tensor& src, std::int64_t axis) {
  return apply1(named_op<"scatter">(), {x, wide(index), beside(src, index)}, op::AxisAttrs{axis});
}
Tensor scatter_add(const Tensor& x, const Tensor& index, const Tensor& src, std::int64_t axis) {
  return apply1(named_op<"scatter_add">(), {x, wide(index), beside(src, index)}, op::AxisAttrs{axis});
}
Tensor index_select(const Tensor& x, const Tensor& index, std::int64_t axis) {
  return apply1(named_op<"index_select">(), {x, wide(index)}, op::AxisAttrs{axis});
}
Tensor index_add(const Tensor& x, const Tensor& index, const Tensor& src, std::int64_t axis) {
  return apply1(named_op<"index_add">(), {x, wide(index), src}, op::AxisAttrs{axis});
}
Tensor one_hot(const Tensor& index, std::int64_t classes, DType dtype) {
  return apply1(named_op<"one_hot">(), {wide(index)}, op::OneHotAttrs{classes, dtype});
}

namespace {

void expect_index(const InferCall& call, std::size_t input) {
  check(call.in[input].dtype == DType::i64, "[{}] expected indices i64, got {}", call.op.name,
        to_string(call.in[input]));
}

// Checks x and index of gather and scatter: equal ranks, index no larger than x except along the axis.
void check_places(const InferCall& call) {
  expect_index(call, 1);
  const Shape &x = call.in[0].shape, &index = call.in[1].shape;
  const int axis = normalize_axis(call.attrs.as<op::AxisAttrs>().axis, x.rank(), call.op.name.c_str());
  bool fits = index.rank() == x.rank();
  for (int i = 0; fits && i < x.rank(); ++i) fits = i == axis || index[i] <= x[i];
  check(fits, "[{}] expected an index no larger than {} but along axis {}, got {}", call.op.name, to_string(x), axis,
        to_string(index));
}

Types infer_gather(const InferCall& call) {
  check_places(call);
  return {TensorType{call.in[0].dtype, call.in[1].shape}};
}

Types infer_scatter(const InferCall& call) {
  check_places(call);
  check(call.in[2] == TensorType({call.in[0].dtype, call.in[1].shape}), "[{}] expected src {}, got {}", call.op.name,
        to_string(TensorType{call.in[0].dtype, call.in[1].shape}), to_string(call.in[2]));
  return {call.in[0]};
}

// Mask of src: true for the last element written to its place.
Tensor stays(const Tensor& index, const Shape& shape, std::int64_t axis) {
  const Tensor number = reshape(arange(0, static_cast<double>(index.numel()), 1, DType::i64), index.shape());
  return equal(gather(scatter(full(shape, -1, DType::i64), index, number, axis), index, axis), number);
}

TensorList grad_gather(const GradCall& c) {
  const Tensor zero = full(c.in[0].shape(), 0, c.in[0].dtype());
  return {scatter_add(zero, c.in[1], c.grads[0], c.attrs.as<op::AxisAttrs>().axis), Tensor()};
}

TensorList grad_scatter(const GradCall& c) {
  const auto axis = c.attrs.as<op::AxisAttrs>().axis;
  const Tensor &index = c.in[1], &dy = c.grads[0];
  const Tensor zero = full(index.shape(), 0, dy.dtype());
  TensorList out(3);
  if (c.needs(0)) out[0] = scatter(dy, index, zero, axis);
  if (c.needs(2)) out[2] = where(stays(index, c.in[0].shape(), axis), gather(dy, index, axis), zero);
  return out;
}

TensorList grad_scatter_add(const GradCall& c) {
  TensorList out(3);
  if (c.needs(0)) out[0] = c.grads[0];
  if (c.needs(2)) out[2] = gather(c.grads[0], c.in[1], c.attrs.as<op::AxisAttrs>().axis);
  return out;
}

Shape selected_shape(const InferCall& call) {
  expect_index(call, 1);
  rules::expect_rank(call, 1, 1);
  Shape shape = call.in[0].shape;
  shape[normalize_axis(call.attrs.as<op::AxisAttrs>().axis, shape.rank(), call.op.name.c_str())] = call.in[1].shape[0];
  return shape;
}

Types infer_index_add(const InferCall& call) {
  const TensorType src{call.in[0].dtype, selected_shape(call)};
  check(call.in[2] == src, "[index_add] expected src {}, got {}", to_string(src), to_string(call.in[2]));
  return {call.in[0]};
}

CaseInput indices(Shape shape, double below) {
  return {.shape = shape, .low = 0, .high = below - 0.01, .dtype = DType::i64};
}

// Sample calls: x, index with values below x's size along the axis, and src if one is written.
std::vector<OpCase> place_cases(bool writes) {
  std::vector<OpCase> cases;
  const auto add = [&](Shape x, Shape index, std::int64_t axis) {
    const auto size = x[normalize_axis(axis, x.rank(), "gather")];
    OpCase one{{{.shape = x}, indices(index, static_cast<double>(size))}, op::AxisAttrs{axis}};
    if (writes) one.in.push_back({.shape = index});
    cases.push_back(std::move(one));
  };
  add({7}, {5}, 0);
  add({3}, {9}, 0);
  add({4, 3}, {2, 3}, 0);
  add({4, 3}, {4, 5}, 1);
  add({3, 4, 2}, {2, 4, 1}, 0);
  add({2, 5, 3}, {1, 6, 2}, -2);
  add({2, 3}, {0, 3}, 0);
  add({3, 19}, {5, 19}, 0);
  add({3, 4}, {3, 21}, -1);
  return cases;
}

std::vector<OpCase> row_cases(bool writes) {
  std::vector<OpCase> cases;
  const auto add = [&](Shape x, std::int64_t count, std::int64_t axis) {
    const int at = normalize_axis(axis, x.rank(), "index_select");
    OpCase one{{{.shape = x}, indices({count}, static_cast<double>(x[at]))}, op::AxisAttrs{axis}};
    x[at] = count;
    if (writes) one.in.push_back({.shape = x});
    cases.push_back(std::move(one));
  };
  add({7}, 5, 0);
  add({3}, 9, 0);
  add({4, 3}, 2, 0);
  add({4, 3}, 6, 1);
  add({3, 4, 2}, 3, -2);
  add({2, 3}, 0, 0);
  add({5, 19}, 8, 0);
  add({0, 3}, 2, 1);
  add({6, 1, 2}, 4, -3);
  return cases;
}

ShardRule shard_rows(const ShardCall& call) {
  const int axis = normalize_axis(call.attrs.as<op::AxisAttrs>().axis, call.in[0].shape.rank(), call.op.name.c_str());
  ShardRule rule = rules::shard_replicated(call);
  if (!call.layouts[0].is_split() || call.layouts[0].dim == axis) return rule;
  rule.in[0] = rule.out[0] = call.layouts[0];
  if (rule.in.size() == 3) rule.in[2] = call.layouts[0];
  return rule;
}

ShardRule shard_places(const ShardCall& call) {
  const int dim = rules::split_dim(call);
  const int axis = normalize_axis(call.attrs.as<op::AxisAttrs>().axis, call.in[0].shape.rank(), call.op.name.c_str());
  return rules::shard_kept(call, dim, dim == axis ? -1 : dim);
}

void register_places(OpRegistry& ops) {
  ops.add({.name = "gather",
           .doc = "The elements of x at the places that index names along an axis.",
           .inputs = {"x", "index"},
           .attrs = &attr_type<op::AxisAttrs>(),
           .infer = infer_gather,
           .gradient = grad_gather,
           .shard = shard_places,
           .cases = [] { return place_cases(false); },
           .saves = kSavesInputs,
           .cost = costs::gathers(0),
           .precision = Width::as_given});
  ops.add({.name = "scatter",
           .doc = "x with the elements of src at the places that index names along an axis; the last of several stays.",
           .inputs = {"x", "index", "src"},
           .attrs = &attr_type<op::AxisAttrs>(),
           .infer = infer_scatter,
           .gradient = grad_scatter,
           .shard = shard_places,
           .cases = [] { return place_cases(true); },
           .saves = kSavesInputs,
           .inplace = 0,
           .cost = costs::moves(),
           .precision = Width::wide});
  ops.add({.name = "scatter_add",
           .doc = "x with the elements of src added at the places that index names along an axis.",
           .inputs = {"x", "index", "src"},
           .attrs = &attr_type<op::AxisAttrs>(),
           .infer = infer_scatter,
           .gradient = grad_scatter_add,
           .shard = shard_places,
           .cases = [] { return place_cases(true); },
           .saves = kSavesInputs,
           .inplace = 0,
           .cost = costs::each(1),
           .precision = Width::wide});
}

}  // namespace

void register_ops_index(OpRegistry& ops) {
  register_places(ops);
  ops.add({.name = "index_select",
           .doc = "The places that index names along an axis.",
           .inputs = {"x", "index"},
           .attrs = &attr_type<op::AxisAttrs>(),
           .infer =
               [](const InferCall& call) {
                 return Types{{call.in[0].dtype, selected_shape(call)}};
               },
           .gradient =
               [](const GradCall& c) {
                 const Tensor zero = full(c.in[0].shape(), 0, c.in[0].dtype());
                 return TensorList{index_add(zero, c.in[1], c.grads[0], c.attrs.as<op::AxisAttrs>().axis), Tensor()};
               },
           .shard = shard_rows,
           .cases = [] { return row_cases(false); },
           .saves = kSavesInputs,
           .cost = costs::gathers(0),
           .precision = Width::as_given});
  ops.add({.name = "index_add",
           .doc = "x with src added at the places that index names along an axis.",
           .inputs = {"x", "index", "src"},
           .attrs = &attr_type<op::AxisAttrs>(),
           .infer = infer_index_add,
           .gradient =
               [](const GradCall& c) {
                 TensorList out(3);
                 if (c.needs(0)) out[0] = c.grads[0];
                 if (c.needs(2)) out[2] = index_select(c.grads[0], c.in[1], c.attrs.as<op::AxisAttrs>().axis);
                 return out;
               },
           .shard = shard_rows,
           .cases = [] { return row_cases(true); },
           .saves = kSavesInputs,
           .inplace = 0,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "one_hot",
           .doc = "One more axis: 1 at the index, else 0.",
           .inputs = {"index"},
           .attrs = &attr_type<op::OneHotAttrs>(),
           .infer =
               [](const InferCall& call) {
                 const auto& a = call.attrs.as<op::OneHotAttrs>();
                 expect_index(call, 0);
                 check(a.classes > 0, "[one_hot] expected at least one class, got {}", a.classes);
                 Shape shape = call.in[0].shape;
                 check(shape.rank() < kMaxRank, "[one_hot] expected a rank below {}, got {}", kMaxRank,
                       to_string(call.in[0]));
                 shape.push_back(a.classes);
                 return Types{{a.dtype, shape}};
               },
           .shard = [](const ShardCall& call) { return rules::shard_batch(call, 1); },
           .cases =
               [] {
                 const auto one = [](Shape shape, std::int64_t classes, DType dtype) {
                   return OpCase{{indices(shape, static_cast<double>(classes))}, op::OneHotAttrs{classes, dtype}};
                 };
                 return std::vector<OpCase>{one({4}, 3, DType::i64),    one({2, 3}, 19, DType::f64),
                                            one({}, 2, DType::boolean), one({0}, 5, DType::f64),
                                            one({7}, 1, DType::u8),     one({5}, 6, DType::bf16)};
               },
           .cost = costs::moves(),
           .precision = Width::wide});
}

}  // namespace starling
