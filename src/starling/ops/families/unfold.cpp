#include "starling/ops/api/unfold.h"

#include "starling/base/error.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/conv_geometry.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor unfold(const Tensor& x, const op::UnfoldAttrs& attrs) { return apply1(named_op<"unfold">(), {x}, attrs); }
Tensor fold(const Tensor& columns, const op::FoldAttrs& attrs) { return apply1(named_op<"fold">(), {columns}, attrs); }

namespace {

std::int64_t window_area(const Pair& kernel, const char* who) {
  std::int64_t area = 0;
  check(kernel[0] >= 1 && kernel[1] >= 1 && !__builtin_mul_overflow(kernel[0], kernel[1], &area),
        "[{}] expected a kernel of at least 1 each way, got {} × {}", who, kernel[0], kernel[1]);
  return area;
}

Types infer_unfold(const InferCall& call) {
  rules::expect_float(call);
  rules::expect_rank(call, 0, 4);
  const auto& a = call.attrs.as<op::UnfoldAttrs>();
  const Shape& x = call.in[0].shape;
  const std::int64_t area = window_area(a.kernel, "unfold");
  const Pair counts = window_counts(x, {a.kernel, a.stride, a.padding, a.dilation}, "unfold");
  std::int64_t rows = 0, columns = 0;
  check(!__builtin_mul_overflow(x[1], area, &rows) && !__builtin_mul_overflow(counts[0], counts[1], &columns),
        "[unfold] expected sizes that can be addressed, got kernel {} × {}", a.kernel[0], a.kernel[1]);
  return {TensorType{call.in[0].dtype, {x[0], rows, columns}}};
}

Types infer_fold(const InferCall& call) {
  rules::expect_float(call);
  rules::expect_rank(call, 0, 3);
  const auto& a = call.attrs.as<op::FoldAttrs>();
  const Shape& columns = call.in[0].shape;
  check(a.size[0] >= 0 && a.size[1] >= 0, "[fold] expected a size of 0 or more, got {} × {}", a.size[0], a.size[1]);
  const std::int64_t area = window_area(a.kernel, "fold");
  const Pair counts = window_counts({a.size[0], a.size[1]}, {a.kernel, a.stride, a.padding, a.dilation}, "fold");
  std::int64_t windows = 0;
  check(!__builtin_mul_overflow(counts[0], counts[1], &windows) && columns[1] % area == 0 && columns[2] == windows,
        "[fold] expected columns [n, c · {}, {} · {}], got {}", area, counts[0], counts[1], to_string(columns));
  return {TensorType{call.in[0].dtype, {columns[0], columns[1] / area, a.size[0], a.size[1]}}};
}

TensorList grad_unfold(const GradCall& c) {
  const auto& a = c.attrs.as<op::UnfoldAttrs>();
  const Shape& x = c.in[0].shape();
  return {fold(c.grads[0], {{x[2], x[3]}, a.kernel, a.stride, a.padding, a.dilation})};
}

TensorList grad_fold(const GradCall& c) {
  const auto& a = c.attrs.as<op::FoldAttrs>();
  return {unfold(c.grads[0], {a.kernel, a.stride, a.padding, a.dilation})};
}

std::vector<OpCase> unfold_cases() {
  const auto one = [](Shape x, op::UnfoldAttrs a) { return OpCase{{{.shape = x}}, a}; };
  return {one({2, 1, 4, 5}, {.kernel = {3, 3}}),
          one({1, 2, 5, 4}, {.kernel = {2, 3}, .stride = {2, 1}}),
          one({1, 2, 4, 4}, {.kernel = {3, 2}, .padding = {1, 2}}),
          one({1, 1, 7, 6}, {.kernel = {3, 2}, .dilation = {2, 3}}),
          one({0, 2, 4, 4}, {.kernel = {2, 2}}),
          one({2, 3, 3, 3}, {}),
          one({1, 1, 3, 20}, {.kernel = {2, 3}, .padding = {0, 1}}),
          one({1, 2, 6, 7}, {.kernel = {3, 3}, .stride = {2, 3}, .padding = {1, 1}, .dilation = {2, 1}})};
}

std::vector<OpCase> fold_cases() {
  std::vector<OpCase> cases;
  for (const auto& c : unfold_cases()) {
    const auto& a = c.attrs.as<op::UnfoldAttrs>();
    const Shape& x = c.in[0].shape;
    const Pair counts = window_counts(x, {a.kernel, a.stride, a.padding, a.dilation}, "cases");
    cases.push_back({{{.shape = {x[0], x[1] * a.kernel[0] * a.kernel[1], counts[0] * counts[1]}}},
                     op::FoldAttrs{{x[2], x[3]}, a.kernel, a.stride, a.padding, a.dilation}});
  }
  return cases;
}

ShardRule shard_images(const ShardCall& call) { return rules::shard_batch(call, 1); }

}  // namespace

void register_ops_unfold(OpRegistry& ops) {
  ops.add({.name = "unfold",
           .doc = "Every window of [n, c, h, w] as a column: [n, c * kh * kw, windows].",
           .inputs = {"x"},
           .outputs = {"columns"},
           .attrs = &attr_type<op::UnfoldAttrs>(),
           .infer = infer_unfold,
           .gradient = grad_unfold,
           .shard = shard_images,
           .cases = unfold_cases,
           .saves = kSavesNothing,
           .cost = costs::moves(),
           .precision = Width::wide});
  ops.add({.name = "fold",
           .doc = "The adjoint of unfold: columns added up where their windows lie in an image.",
           .inputs = {"columns"},
           .outputs = {"x"},
           .attrs = &attr_type<op::FoldAttrs>(),
           .infer = infer_fold,
           .gradient = grad_fold,
           .shard = shard_images,
           .cases = fold_cases,
           .saves = kSavesNothing,
           .cost = costs::each(1),
           .precision = Width::wide});
}

}  // namespace starling
