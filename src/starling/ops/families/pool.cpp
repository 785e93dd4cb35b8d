#include "starling/ops/api/pool.h"

#include "starling/base/error.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/shape_ops.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/pool_geometry.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {
namespace {

// Max pooling computes indices, which cost time and memory, only if a gradient is needed.
Tensor max_pool(const OpDef& with_index, const OpDef& values, const Tensor& x, const op::MaxPoolAttrs& attrs) {
  return apply1(grad_enabled() && x.defined() && x.requires_grad() ? with_index : values, {x}, attrs);
}

MaxPooled both(const OpDef& op, const Tensor& x, const op::MaxPoolAttrs& attrs) {
  TensorList out = apply(op, {x}, attrs);
  return {out[0], out[1]};
}

}  // namespace

Tensor max_pool1d(const Tensor& x, const op::MaxPoolAttrs& attrs) {
  return max_pool(named_op<"max_pool1d">(), named_op<"max_pool1d_values">(), x, attrs);
}
Tensor max_pool2d(const Tensor& x, const op::MaxPoolAttrs& attrs) {
  return max_pool(named_op<"max_pool2d">(), named_op<"max_pool2d_values">(), x, attrs);
}
Tensor max_pool3d(const Tensor& x, const op::MaxPoolAttrs& attrs) {
  return max_pool(named_op<"max_pool3d">(), named_op<"max_pool3d_values">(), x, attrs);
}
MaxPooled max_pool1d_with_index(const Tensor& x, const op::MaxPoolAttrs& attrs) {
  return both(named_op<"max_pool1d">(), x, attrs);
}
MaxPooled max_pool2d_with_index(const Tensor& x, const op::MaxPoolAttrs& attrs) {
  return both(named_op<"max_pool2d">(), x, attrs);
}
MaxPooled max_pool3d_with_index(const Tensor& x, const op::MaxPoolAttrs& attrs) {
  return both(named_op<"max_pool3d">(), x, attrs);
}
Tensor adaptive_max_pool1d(const Tensor& x, const op::AdaptivePoolAttrs& attrs) {
  return apply1(named_op<"adaptive_max_pool1d">(), {x}, attrs);
}
Tensor adaptive_max_pool2d(const Tensor& x, const op::AdaptivePoolAttrs& attrs) {
  return apply1(named_op<"adaptive_max_pool2d">(), {x}, attrs);
}
Tensor adaptive_max_pool3d(const Tensor& x, const op::AdaptivePoolAttrs& attrs) {
  return apply1(named_op<"adaptive_max_pool3d">(), {x}, attrs);
}
Tensor global_max_pool(const Tensor& x) { return apply1(named_op<"global_max_pool">(), {x}); }

namespace {

Types values_and_positions(const InferCall& call, const Shape& y) {
  rules::expect_float(call);
  return {TensorType{call.in[0].dtype, y}, TensorType{DType::i32, y}};
}

Shape max_shape(const InferCall& call) {
  const char* who = call.op.name.c_str();
  return pool_geometry(call.in[0].shape, call.attrs.as<op::MaxPoolAttrs>(), spatial_dims(call.op.name), who).y;
}

Types infer_max(const InferCall& call) { return values_and_positions(call, max_shape(call)); }

Types infer_values(const InferCall& call) {
  rules::expect_float(call);
  return {TensorType{call.in[0].dtype, max_shape(call)}};
}

Types infer_adaptive(const InferCall& call) {
  const auto& size = call.attrs.as<op::AdaptivePoolAttrs>().size;
  const int spatial = spatial_dims(call.op.name);
  return values_and_positions(call, adaptive_geometry(call.in[0].shape, size, spatial, call.op.name.c_str()).y);
}

Types infer_global(const InferCall& call) {
  return values_and_positions(call, adaptive_geometry(call.in[0].shape, {1}, 0, call.op.name.c_str()).y);
}

// Checks an image and indices into it, for any number of windows.
void check_positions(const Shape& x, const TensorType& index, const InferCall& call) {
  adaptive_geometry(x, {1}, 0, call.op.name.c_str());
  const Shape& at = index.shape;
  check(index.dtype == DType::i32 && at.rank() == x.rank() && at[0] == x[0] && at[1] == x[1],
        "[{}] expected positions i32 [{}, {}, …] of rank {}, got {}", call.op.name, x[0], x[1], x.rank(),
        to_string(index));
}

Types infer_backward(const InferCall& call) {
  rules::expect_float(call);
  const Shape& x = call.attrs.as<op::ShapeAttrs>().shape;
  check_positions(x, call.in[1], call);
  check(call.in[0].shape == call.in[1].shape, "[{}] expected dy of the positions' shape {}, got {}", call.op.name,
        to_string(call.in[1].shape), to_string(call.in[0]));
  return {TensorType{call.in[0].dtype, x}};
}

Types infer_gather(const InferCall& call) {
  rules::expect_float(call);
  check_positions(call.in[0].shape, call.in[1], call);
  return {TensorType{call.in[0].dtype, call.in[1].shape}};
}

TensorList scatter(const Tensor& dy, const Tensor& index, const Shape& shape) {
  if (!dy.defined()) return {Tensor()};
  return {apply1(named_op<"max_pool_backward">(), {dy, index}, op::ShapeAttrs{shape})};
}

TensorList max_gradient(const GradCall& c) { return scatter(c.grads[0], c.out[1], c.in[0].shape()); }

std::vector<OpCase> max_cases(int spatial) {
  const auto one = [&](Shape x, op::MaxPoolAttrs a) { return OpCase{{{.shape = x, .distinct = true}}, a}; };
  if (spatial == 1)
    return {one({2, 3, 8}, {}),
            one({1, 2, 9}, {{3}, {2}, {1}}),
            one({1, 1, 40}, {{3}, {1}, {0}}),
            one({1, 1, 11}, {{2}, {3}, {1}, {2}}),
            one({1, 2, 7}, {{2}, {}, {0}, {1}, true}),
            one({0, 2, 4}, {}),
            one({1, 1, 75}, {{2}, {2}, {0}}),
            one({1, 2, 5}, {{5}, {1}, {2}})};
  if (spatial == 3)
    return {one({1, 2, 4, 4, 4}, {}),
            one({1, 1, 4, 5, 6}, {{3, 2, 1}, {2, 1, 1}, {1, 0, 0}}),
            one({1, 1, 5, 5, 5}, {{2}, {1}, {0}, {2}}),
            one({1, 1, 3, 3, 5}, {{2}, {2}, {0}, {1}, true}),
            one({0, 1, 2, 2, 2}, {}),
            one({1, 1, 2, 3, 35}, {{2, 3, 3}, {1, 1, 2}, {0, 1, 1}}),
            one({1, 2, 2, 2, 19}, {{1, 2, 3}, {1}, {0}}),
            one({2, 1, 3, 3, 3}, {{3}})};
  return {one({2, 3, 4, 4}, {}),
          one({1, 2, 5, 7}, {{3, 2}, {2, 1}, {1, 0}}),
          one({1, 1, 6, 6}, {{3}, {2}}),
          one({0, 2, 4, 4}, {}),
          one({1, 1, 10, 20}, {}),
          one({1, 2, 5, 5}, {{2}, {1}, {1}}),
          one({1, 1, 5, 39}, {{3}, {2}, {1}, {1}, true}),
          one({1, 1, 9, 9}, {{2, 3}, {1, 2}, {1}, {3, 2}}),
          one({1, 1, 4, 44}, {{4, 5}, {2}, {2}}),
          one({1, 1, 7, 9}, {{2}, {3, 4}, {0}})};
}

std::vector<OpCase> adaptive_cases(int spatial) {
  const auto one = [&](Shape x, Shape size) {
    return OpCase{{{.shape = x, .distinct = true}}, op::AdaptivePoolAttrs{size}};
  };
  if (spatial == 1)
    return {one({2, 3, 8}, {4}), one({1, 2, 7}, {3}),   one({1, 1, 5}, {1}), one({1, 1, 3}, {5}),
            one({0, 2, 4}, {2}), one({1, 1, 44}, {22}), one({1, 1, 9}, {9}), one({1, 3, 10}, {4})};
  if (spatial == 3)
    return {one({1, 2, 4, 4, 4}, {2}),       one({1, 1, 3, 4, 5}, {2, 3, 2}), one({1, 1, 3, 3, 3}, {1}),
            one({1, 1, 2, 2, 2}, {3}),       one({0, 1, 2, 2, 2}, {1}),       one({1, 1, 2, 2, 36}, {1, 1, 18}),
            one({2, 1, 3, 2, 4}, {3, 2, 4}), one({1, 1, 5, 4, 3}, {2})};
  return {one({2, 2, 4, 6}, {2, 3}), one({1, 2, 5, 7}, {3, 2}),   one({1, 3, 7, 7}, {1}), one({1, 1, 2, 3}, {3, 4}),
          one({0, 2, 4, 4}, {2}),    one({1, 1, 4, 36}, {2, 18}), one({1, 1, 6, 6}, {4}), one({1, 2, 3, 5}, {3, 5})};
}

std::vector<OpCase> global_cases() {
  const auto one = [](Shape x) { return OpCase{{{.shape = x, .distinct = true}}, op::NoAttrs{}}; };
  return {one({2, 3, 8}),    one({2, 3, 4, 4}), one({1, 2, 3, 2, 2}), one({0, 3, 2, 2}),
          one({1, 3, 7, 7}), one({1, 1, 1, 1}), one({4, 2, 1, 20}),   one({1, 1, 5, 33})};
}

// Sample indices anywhere in the image, with repetitions.
std::vector<OpCase> position_cases(bool backward) {
  const auto one = [&](Shape x, Shape y) {
    std::int64_t volume = 1;
    for (int i = 2; i < x.rank(); ++i) volume *= x[i];
    const CaseInput index{.shape = y, .low = 0, .high = static_cast<double>(volume) - 0.01, .dtype = DType::i32};
    if (backward) return OpCase{{{.shape = y}, index}, op::ShapeAttrs{x}};
    return OpCase{{{.shape = x}, index}, op::NoAttrs{}};
  };
  return {one({2, 3, 8}, {2, 3, 4}),         one({1, 2, 4, 4}, {1, 2, 2, 2}),       one({1, 1, 3, 3}, {1, 1, 4, 5}),
          one({0, 2, 4, 4}, {0, 2, 2, 2}),   one({1, 2, 2, 3, 4}, {1, 2, 1, 2, 2}), one({1, 3, 5, 5}, {1, 3, 1, 1}),
          one({1, 1, 4, 40}, {1, 1, 2, 20}), one({1, 2, 2, 2}, {1, 2, 1, 1})};
}

// Sample calls in which the same positions always win, to cover both vector paths.
std::vector<OpCase> backward_cases() {
  auto cases = position_cases(true);
  const CaseInput first{.shape = {1, 40, 1, 1}, .low = 0, .high = 0.5, .dtype = DType::i32};
  cases.push_back({{{.shape = {1, 40, 1, 1}}, first}, op::ShapeAttrs{{1, 40, 2, 2}}});
  return cases;
}

op::MaxPoolAttrs windows_of(const op::MaxPoolGradAttrs& a) {
  return {a.kernel, a.stride, a.padding, a.dilation, a.ceil_mode};
}

Types infer_window_backward(const InferCall& call) {
  rules::expect_float(call);
  const auto& a = call.attrs.as<op::MaxPoolGradAttrs>();
  check_positions(a.shape, call.in[1], call);
  const Shape y = pool_geometry(a.shape, windows_of(a), 2, call.op.name.c_str()).y;
  check(call.in[0].shape == y && call.in[1].shape == y, "[{}] expected dy and index of {}, got {} and {}", call.op.name,
        to_string(y), to_string(call.in[0]), to_string(call.in[1]));
  return {TensorType{call.in[0].dtype, a.shape}};
}

// Pairs of a shape and windows over it; positions are drawn from the whole image, so that most lie outside theirs.
std::vector<OpCase> window_cases() {
  std::vector<OpCase> cases;
  for (const OpCase& forward : max_cases(2)) {
    const Shape& x = forward.in[0].shape;
    const auto& a = forward.attrs.as<op::MaxPoolAttrs>();
    const Shape y = pool_geometry(x, a, 2, "cases").y;
    const double volume = static_cast<double>(x[2] * x[3]);
    cases.push_back({{{.shape = y}, {.shape = y, .low = 0, .high = volume - 0.5, .dtype = DType::i32}},
                     op::MaxPoolGradAttrs{x, a.kernel, a.stride, a.padding, a.dilation, a.ceil_mode}});
  }
  return cases;
}

ShardRule shard_pool(const ShardCall& call) { return rules::shard_batch(call, 0b11); }

OpDef max_op(std::string name, std::string doc, const AttrType& attrs, std::function<Types(const InferCall&)> infer,
             std::function<std::vector<OpCase>()> cases) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .inputs = {"x"},
          .outputs = {"y", "index"},
          .attrs = &attrs,
          .infer = std::move(infer),
          .gradient = max_gradient,
          .shard = shard_pool,
          .cases = std::move(cases),
          .saves = kSavesOutputs,
          .cost = costs::each(1),
          .precision = Width::wide};
}

void register_of_rank(OpRegistry& ops, int spatial) {
  const std::string name = "pool" + std::to_string(spatial) + "d";
  OpDef largest = max_op("max_" + name, "The largest value of each window, and where in the image it lies.",
                         attr_type<op::MaxPoolAttrs>(), infer_max, [spatial] { return max_cases(spatial); });
  largest.cost = costs::pool();
  largest.precision = Width::as_given;
  ops.add(std::move(largest));
  ops.add(max_op("adaptive_max_" + name, "The largest value of each of `size` even windows, and where it lies.",
                 attr_type<op::AdaptivePoolAttrs>(), infer_adaptive, [spatial] { return adaptive_cases(spatial); }));
  // Without indices; the gradient, rarely used here, recomputes them.
  ops.add({.name = "max_" + name + "_values",
           .doc = "The largest value of each window.",
           .inputs = {"x"},
           .attrs = &attr_type<op::MaxPoolAttrs>(),
           .infer = infer_values,
           .gradient =
               [spatial](const GradCall& c) {
                 const OpDef& op = spatial == 1   ? named_op<"max_pool1d">()
                                   : spatial == 2 ? named_op<"max_pool2d">()
                                                  : named_op<"max_pool3d">();
                 return scatter(c.grads[0], apply(op, {c.in[0]}, c.attrs)[1], c.in[0].shape());
               },
           .shard = shard_pool,
           .cases = [spatial] { return max_cases(spatial); },
           .saves = kSavesInputs,
           .cost = costs::pool(),
           .precision = Width::as_given});
}

}  // namespace

void register_ops_pool(OpRegistry& ops) {
  for (int spatial : {1, 2, 3}) register_of_rank(ops, spatial);
  ops.add(max_op("global_max_pool", "The largest value of each image, and where it lies.", attr_type<op::NoAttrs>(),
                 infer_global, global_cases));
  ops.add({.name = "max_pool_backward",
           .doc = "dy at its position in each image, summed where positions are equal.",
           .inputs = {"dy", "index"},
           .outputs = {"dx"},
           .attrs = &attr_type<op::ShapeAttrs>(),
           .infer = infer_backward,
           .gradient =
               [](const GradCall& c) {
                 return TensorList{apply1(named_op<"max_pool_gather">(), {c.grads[0], c.in[1]}), Tensor()};
               },
           .shard = shard_pool,
           .cases = backward_cases,
           .saves = kSavesInputs,
           .cost = costs::each_of_first(),
           .precision = Width::wide});
  ops.add({.name = "max_pool2d_backward",
           .doc = "max_pool_backward of positions that lie in their windows; those of others are left out.",
           .inputs = {"dy", "index"},
           .outputs = {"dx"},
           .attrs = &attr_type<op::MaxPoolGradAttrs>(),
           .infer = infer_window_backward,
           .cases = window_cases,
           .plain = true,
           .cost = costs::each_of_first(),
           .precision = Width::wide});
  ops.add({.name = "max_pool_gather",
           .doc = "The elements of each image at given positions.",
           .inputs = {"x", "index"},
           .infer = infer_gather,
           .gradient =
               [](const GradCall& c) {
                 return TensorList{scatter(c.grads[0], c.in[1], c.in[0].shape())[0], Tensor()};
               },
           .shard = shard_pool,
           .cases = [] { return position_cases(false); },
           .saves = kSavesInputs,
           .cost = costs::moves(),
           .precision = Width::wide});
}

}  // namespace starling
