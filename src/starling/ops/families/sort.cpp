#include "starling/ops/api/sort.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "starling/base/error.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/index.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"
#include "starling/ops/def/scopes/call_site.h"

namespace starling {

Sorted sort(const Tensor& x, const op::SortAttrs& attrs) {
  const TensorList out = apply(named_op<"sort">(), {x}, attrs);
  return {out[0], out[1]};
}
Tensor argsort(const Tensor& x, const op::SortAttrs& attrs) { return apply1(named_op<"argsort">(), {x}, attrs); }
Sorted topk(const Tensor& x, const op::TopkAttrs& attrs) {
  const TensorList out = apply(named_op<"topk">(), {x}, attrs);
  return {out[0], out[1]};
}
Unique unique(const Tensor& x, SourceLocation where) {
  const CallSite site(where);
  const TensorList out = apply(named_op<"unique">(), {x});
  return {out[0], out[1], out[2]};
}

namespace {

// Gradients go back to the original positions.
TensorList grad_sorted(const GradCall& c, std::int64_t axis) {
  if (!c.grads[0].defined()) return {Tensor()};
  return {scatter_add(full(c.in[0].shape(), 0, c.in[0].dtype()), c.out[1], c.grads[0], axis)};
}

Types infer_sort(const InferCall& call) {
  normalize_axis(call.attrs.as<op::SortAttrs>().axis, call.in[0].shape.rank(), call.op.name.c_str());
  return {call.in[0], TensorType{DType::i64, call.in[0].shape}};
}

Types infer_topk(const InferCall& call) {
  const auto& a = call.attrs.as<op::TopkAttrs>();
  Shape shape = call.in[0].shape;
  const int axis = normalize_axis(a.axis, shape.rank(), "topk");
  check(a.k >= 0 && a.k <= shape[axis], "[topk] expected k in [0, {}], got {}", shape[axis], a.k);
  shape[axis] = a.k;
  return {TensorType{call.in[0].dtype, shape}, TensorType{DType::i64, shape}};
}

std::vector<OpCase> sort_cases() {
  const auto one = [](Shape shape, op::SortAttrs a) { return OpCase{{{.shape = shape, .distinct = true}}, a}; };
  return {one({7}, {}),
          one({3, 5}, {0, false}),
          one({3, 5}, {1, true}),
          one({2, 3, 4}, {1, true}),
          one({2, 3, 4}, {-3, false}),
          one({0, 3}, {0, false}),
          one({3, 0}, {1, true}),
          one({1}, {0, true}),
          one({2, 40}, {-1, true})};
}

std::vector<OpCase> topk_cases() {
  const auto one = [](Shape shape, op::TopkAttrs a) { return OpCase{{{.shape = shape, .distinct = true}}, a}; };
  return {one({7}, {3, 0, true, true}),         one({3, 5}, {2, 0, false, true}),    one({3, 5}, {2, 1, true, false}),
          one({2, 3, 4}, {2, 1, false, false}), one({2, 3, 4}, {1, -3, true, true}), one({3, 5}, {0, 1, true, true}),
          one({0, 3}, {2, 1, true, true}),      one({2, 40}, {5, -1, true, true}),   one({6}, {6, 0, false, true})};
}

// Sorted distinct values, with one NaN last.
template <class T>
std::int64_t count_distinct(const Tensor& x) {
  std::vector<T> values(x.data<T>(), x.data<T>() + x.numel());
  const auto before = [](T a, T b) {
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a) || std::isnan(b)) return !std::isnan(a) && std::isnan(b);
    }
    return a < b;
  };
  std::sort(values.begin(), values.end(), before);
  const auto same = [&](T a, T b) { return !before(a, b) && !before(b, a); };
  return std::unique(values.begin(), values.end(), same) - values.begin();
}

Types measure_unique(std::span<const Tensor> in, const Attrs&) {
  std::int64_t count = 0;
  const Tensor x = is_half(in[0].dtype()) ? cast(in[0], DType::f32) : in[0];
  dispatch(x.dtype(), [&]<class T>() {
    if constexpr (!std::is_same_v<T, Half> && !std::is_same_v<T, BFloat16>) count = count_distinct<T>(x);
  });
  return {TensorType{in[0].dtype(), {count}}, TensorType{DType::i64, in[0].shape()}, TensorType{DType::i64, {count}}};
}

void register_unique(OpRegistry& ops) {
  ops.add(
      {.name = "unique",
       .doc = "The different values in order, which of them each element is, and how often each occurs.",
       .inputs = {"x"},
       .outputs = {"values", "inverse", "counts"},
       .infer =
           [](const InferCall& call) {
             const Shape most{call.in[0].shape.numel()};
             return Types{{call.in[0].dtype, most}, {DType::i64, call.in[0].shape}, {DType::i64, most}};
           },
       .cases =
           [] {
             const auto few = [](Shape shape) {
               return OpCase{{{.shape = shape, .low = -3, .high = 3, .dtype = DType::i64}}, op::NoAttrs{}};
             };
             return std::vector<OpCase>{few({9}), few({4, 5}), few({0}), few({}), {{{.shape = {6}}}, op::NoAttrs{}}};
           },
       .measure = measure_unique,
       .plain = true,
       .cost = costs::each(1),
       .precision = Width::wide});
}

double flops_of_sorting(const CostCall& call) {
  const double n = std::max(2.0, costs::size(call.in[0], -1));
  return costs::elements(call.in[0]) * std::log2(n);
}

}  // namespace

void register_ops_sort(OpRegistry& ops) {
  ops.add({.name = "sort",
           .doc = "The values along an axis in order, and where each came from. Stable.",
           .inputs = {"x"},
           .outputs = {"values", "indices"},
           .attrs = &attr_type<op::SortAttrs>(),
           .infer = infer_sort,
           .gradient = [](const GradCall& c) { return grad_sorted(c, c.attrs.as<op::SortAttrs>().axis); },
           .shard =
               [](const ShardCall& call) {
                 if (call.layouts[0].is_partial()) return rules::shard_replicated(call);
                 return rules::shard_other_axes(call, call.attrs.as<op::SortAttrs>().axis);
               },
           .cases = sort_cases,
           .saves = kSavesOutputs,
           .cost = {flops_of_sorting},
           .precision = Width::wide});
  ops.add({.name = "argsort",
           .doc = "Where the values along an axis stand when in order. Stable.",
           .inputs = {"x"},
           .attrs = &attr_type<op::SortAttrs>(),
           .infer = [](const InferCall& call) { return Types{infer_sort(call)[1]}; },
           .cases = sort_cases,
           .cost = {flops_of_sorting},
           .precision = Width::wide});
  ops.add({.name = "topk",
           .doc = "The k largest or smallest values along an axis, and where they are.",
           .inputs = {"x"},
           .outputs = {"values", "indices"},
           .attrs = &attr_type<op::TopkAttrs>(),
           .infer = infer_topk,
           .gradient = [](const GradCall& c) { return grad_sorted(c, c.attrs.as<op::TopkAttrs>().axis); },
           .shard =
               [](const ShardCall& call) {
                 if (call.layouts[0].is_partial()) return rules::shard_replicated(call);
                 return rules::shard_other_axes(call, call.attrs.as<op::TopkAttrs>().axis);
               },
           .cases = topk_cases,
           .saves = kSavesOutputs,
           .cost = {flops_of_sorting},
           .precision = Width::wide});
  register_unique(ops);
}

}  // namespace starling
