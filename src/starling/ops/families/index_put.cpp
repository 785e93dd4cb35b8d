#include <algorithm>
#include <tuple>

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/create.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/index.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/index.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/scopes/call_site.h"

namespace starling {

namespace {

// Index tensors converted to i64 and broadcast to one shape.
TensorList aligned(std::span<const Tensor> indices, const char* who) {
  check(!indices.empty(), "[{}] expected at least one index tensor, got none", who);
  Shape shape;
  for (const auto& index : indices) shape = broadcast_shapes(shape, index.shape(), who);
  TensorList out;
  for (const auto& index : indices) {
    out.push_back(broadcast_to(index.dtype() == DType::i32 ? cast(index, DType::i64) : index, shape));
  }
  return out;
}

// [index shape..., axes that are not indexed...]
Shape picked_shape(const Shape& x, const Shape& index, std::size_t axes, const char* who) {
  check(axes <= static_cast<std::size_t>(x.rank()), "[{}] expected at most {} index tensors, got {}", who, x.rank(),
        axes);
  const int rest = x.rank() - static_cast<int>(axes);
  check(index.rank() + rest <= kMaxRank, "[{}] expected a result of rank at most {}, got {}", who, kMaxRank,
        index.rank() + rest);
  Shape shape = index;
  for (int i = x.rank() - rest; i < x.rank(); ++i) shape.push_back(x[i]);
  return shape;
}

Tensor put(const Tensor& x, const Tensor& values, std::span<const Tensor> indices, bool accumulate) {
  TensorList in{x, values};
  for (const auto& index : indices) in.push_back(index);
  return apply(named_op<"index_put">(), {in.data(), in.size()}, op::IndexPutAttrs{accumulate})[0];
}

Tensor get(const Tensor& x, std::span<const Tensor> indices) {
  TensorList in{x};
  for (const auto& index : indices) in.push_back(index);
  return apply(named_op<"index_get">(), {in.data(), in.size()})[0];
}

}  // namespace

Tensor take(const Tensor& x, const Tensor& index) {
  return apply1(named_op<"take">(), {x, index.dtype() == DType::i32 ? cast(index, DType::i64) : index});
}

Tensor index_get(const Tensor& x, std::span<const Tensor> indices) {
  const TensorList index = aligned(indices, "index_get");
  return get(x, {index.data(), index.size()});
}

Tensor index_put(const Tensor& x, std::span<const Tensor> indices, const Tensor& values, bool accumulate) {
  const TensorList index = aligned(indices, "index_put");
  const Shape shape = picked_shape(x.shape(), index[0].shape(), index.size(), "index_put");
  return put(x, broadcast_to(values, shape), {index.data(), index.size()}, accumulate);
}

Tensor nonzero(const Tensor& x, SourceLocation where) {
  const CallSite site(where);
  return apply1(named_op<"nonzero">(), {x});
}

namespace {

void check_indices(const InferCall& call, std::size_t first) {
  check(call.in.size() > first, "[{}] expected at least one index tensor, got none", call.op.name);
  for (std::size_t i = first; i < call.in.size(); ++i) {
    check(call.in[i].dtype == DType::i64 && call.in[i].shape == call.in[first].shape,
          "[{}] expected indices i64 of one shape, got {} and {}", call.op.name, to_string(call.in[first]),
          to_string(call.in[i]));
  }
}

Types infer_get(const InferCall& call) {
  check_indices(call, 1);
  return {TensorType{call.in[0].dtype,
                     picked_shape(call.in[0].shape, call.in[1].shape, call.in.size() - 1, call.op.name.c_str())}};
}

Types infer_put(const InferCall& call) {
  check_indices(call, 2);
  const TensorType values{call.in[0].dtype,
                          picked_shape(call.in[0].shape, call.in[2].shape, call.in.size() - 2, "index_put")};
  check(call.in[1] == values, "[index_put] expected values {}, got {}", to_string(values), to_string(call.in[1]));
  return {call.in[0]};
}

// Mask of the index shape, with trailing axes of size 1: true for the last part written to its place.
Tensor stays(const Shape& x, std::span<const Tensor> indices) {
  const Shape& shape = indices[0].shape();
  const Tensor number = reshape(arange(0, static_cast<double>(shape.numel()), 1, DType::i64), shape);
  Shape places, mask = shape;
  for (int i = 0; i < x.rank(); ++i) {
    if (i < static_cast<int>(indices.size()))
      places.push_back(x[i]);
    else
      mask.push_back(1);
  }
  const Tensor last = put(full(places, -1, DType::i64), number, indices, false);
  return reshape(equal(get(last, indices), number), mask);
}

TensorList grad_get(const GradCall& c) {
  const Tensor zero = full(c.in[0].shape(), 0, c.in[0].dtype());
  TensorList out(c.in.size());
  out[0] = put(zero, c.grads[0], c.in.subspan(1), true);
  return out;
}

TensorList grad_put(const GradCall& c) {
  const bool accumulate = c.attrs.as<op::IndexPutAttrs>().accumulate;
  const auto indices = c.in.subspan(2);
  const Tensor& dy = c.grads[0];
  const Tensor zero = full(c.in[1].shape(), 0, dy.dtype());
  TensorList out(c.in.size());
  if (c.needs(0)) out[0] = accumulate ? dy : put(dy, zero, indices, false);
  if (c.needs(1)) {
    const Tensor read = get(dy, indices);
    out[1] = accumulate ? read : where(stays(c.in[0].shape(), indices), read, zero);
  }
  return out;
}

CaseInput index_of(Shape shape, std::int64_t size) {
  const auto most = static_cast<double>(size);
  return {.shape = shape, .low = -most, .high = most - 0.01, .dtype = DType::i64};
}

// Sample call with `axes` index tensors of one shape.
OpCase picking(const Shape& x, int axes, const Shape& index, bool puts, bool accumulate) {
  OpCase one{{{.shape = x}}, op::NoAttrs{}};
  if (puts) {
    one.attrs = op::IndexPutAttrs{accumulate};
    one.in.push_back({.shape = picked_shape(x, index, static_cast<std::size_t>(axes), "index_put")});
  }
  for (int i = 0; i < axes; ++i) one.in.push_back(index_of(index, x[i]));
  return one;
}

std::vector<OpCase> pick_cases(bool puts) {
  std::vector<OpCase> cases;
  for (const bool accumulate : {false, true}) {
    if (accumulate && !puts) break;
    for (const auto& [x, axes, index] : std::initializer_list<std::tuple<Shape, int, Shape>>{{{7}, 1, {4}},
                                                                                             {{4, 3}, 2, {9}},
                                                                                             {{4, 3}, 1, {2, 3}},
                                                                                             {{3, 2, 4}, 2, {5}},
                                                                                             {{3, 19}, 1, {5}},
                                                                                             {{3, 4}, 1, {0}},
                                                                                             {{2, 3, 2}, 3, {}},
                                                                                             {{5, 2}, 1, {}}})
      cases.push_back(picking(x, axes, index, puts, accumulate));
  }
  return cases;
}

std::vector<OpCase> take_cases() {
  const auto one = [](Shape x, Shape index) {
    return OpCase{{{.shape = x}, index_of(index, x.numel())}, op::NoAttrs{}};
  };
  return {one({7}, {4}), one({2, 3}, {5}), one({2, 3}, {2, 2}), one({2, 3, 2}, {}),
          one({}, {3}),  one({4}, {0}),    one({5, 5}, {21}),   one({3, 1}, {2, 1, 2})};
}

Types infer_take(const InferCall& call) {
  check(call.in[1].dtype == DType::i64, "[take] expected indices i64, got {}", to_string(call.in[1]));
  return {TensorType{call.in[0].dtype, call.in[1].shape}};
}

TensorList grad_take(const GradCall& c) {
  const Tensor zero = full({c.in[0].numel()}, 0, c.in[0].dtype());
  return {reshape(put(zero, c.grads[0], c.in.subspan(1), true), c.in[0].shape()), Tensor()};
}

// Number of rows: the count of nonzero elements.
Types measure_nonzero(std::span<const Tensor> in, const Attrs&) {
  std::int64_t count = 0;
  dispatch(in[0].dtype(), [&]<class T>() {
    const T* x = in[0].data<T>();
    count = std::count_if(x, x + in[0].numel(), [](T v) {
      if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
        return v.to_float() != 0;
      else
        return v != T{};
    });
  });
  return {TensorType{DType::i64, {count, in[0].rank()}}};
}

}  // namespace

void register_ops_index_put(OpRegistry& ops) {
  ops.add({.name = "take",
           .doc = "Elements of x by their row-major numbers; negative ones count from the end.",
           .inputs = {"x", "index"},
           .infer = infer_take,
           .gradient = grad_take,
           .cases = take_cases,
           .saves = kSavesInputs,
           .cost = costs::gathers(0),
           .precision = Width::as_given});
  ops.add({.name = "index_get",
           .doc = "x[i, j, …] for index tensors of the leading axes; negative indices count from the end.",
           .inputs = {"x", "indices..."},
           .infer = infer_get,
           .gradient = grad_get,
           .cases = [] { return pick_cases(false); },
           .saves = kSavesInputs,
           .cost = costs::gathers(0),
           .precision = Width::as_given});
  ops.add({.name = "index_put",
           .doc = "x with values put at [i, j, …], or added; the last of several put to one place stays.",
           .inputs = {"x", "values", "indices..."},
           .attrs = &attr_type<op::IndexPutAttrs>(),
           .infer = infer_put,
           .gradient = grad_put,
           .cases = [] { return pick_cases(true); },
           .saves = kSavesInputs,
           .inplace = 0,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "nonzero",
           .doc = "The places of all elements other than 0, in row-major order.",
           .inputs = {"x"},
           .infer =
               [](const InferCall& call) {
                 return Types{{DType::i64, {call.in[0].shape.numel(), call.in[0].shape.rank()}}};
               },
           .cases =
               [] {
                 const CaseInput flags{.shape = {4, 5}, .low = 0, .high = 1.99, .dtype = DType::boolean};
                 return std::vector<OpCase>{
                     {{flags}, op::NoAttrs{}},
                     {{{.shape = {7}, .low = -2, .high = 2, .dtype = DType::i64}}, op::NoAttrs{}},
                     {{{.shape = {2, 3}}}, op::NoAttrs{}},
                     {{{.shape = {}}}, op::NoAttrs{}},
                     {{{.shape = {0, 3}}}, op::NoAttrs{}}};
               },
           .measure = measure_nonzero,
           .plain = true,
           .cost = costs::each(1),
           .precision = Width::wide});
}

}  // namespace starling
