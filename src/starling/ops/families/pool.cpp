#include "starling/ops/pool.h"

#include "starling/base/error.h"
#include "starling/ops/apply.h"
#include "starling/ops/conv.h"
#include "starling/ops/registry.h"
#include "starling/ops/rules.h"

namespace starling {

Tensor max_pool2d(const Tensor& x, const Pool2dAttrs& attrs) {
  static const OpDef& op = find_op("max_pool2d");
  return apply1(op, {x}, attrs);
}

Tensor avg_pool2d(const Tensor& x, const Pool2dAttrs& attrs) {
  static const OpDef& op = find_op("avg_pool2d");
  return apply1(op, {x}, attrs);
}

namespace {

Shape pooled_shape(const Shape& x, const Pool2dAttrs& a, const char* who) {
  check(x.rank() == 4, "[{}] expected x [n, c, h, w], got {}", who, to_string(x));
  for (int i : {0, 1}) {
    const auto axis = static_cast<std::size_t>(i);
    check(a.padding[axis] <= a.kernel[axis] / 2, "[{}] expected padding of at most half the kernel, got {} for {}", who,
          a.padding[axis], a.kernel[axis]);
  }
  return {x[0], x[1], window_count(x[2], a.kernel[0], a.stride[0], a.padding[0], 1, who),
          window_count(x[3], a.kernel[1], a.stride[1], a.padding[1], 1, who)};
}

Pool2dGradAttrs grad_attrs(const Shape& shape, const Pool2dAttrs& a) { return {shape, a.kernel, a.stride, a.padding}; }
Pool2dAttrs plain(const Pool2dGradAttrs& a) { return {a.kernel, a.stride, a.padding}; }

Types infer_max(const InferCall& call) {
  rules::expect_float(call);
  const auto& a = call.attrs.as<Pool2dAttrs>();
  const Shape out = pooled_shape(call.in[0].shape, a, "max_pool2d");
  check(a.kernel[0] * a.kernel[1] <= 256, "[max_pool2d] expected a window of at most 256 elements, got {} × {}",
        a.kernel[0], a.kernel[1]);
  return {TensorType{call.in[0].dtype, out}, TensorType{DType::u8, out}};
}

Types infer_avg(const InferCall& call) {
  rules::expect_float(call);
  return {TensorType{call.in[0].dtype, pooled_shape(call.in[0].shape, call.attrs.as<Pool2dAttrs>(), "avg_pool2d")}};
}

Types infer_backward(const InferCall& call) {
  rules::expect_float(call);
  const auto& a = call.attrs.as<Pool2dGradAttrs>();
  const Shape dy = pooled_shape(a.shape, plain(a), call.op.name.c_str());
  check(call.in[0].shape == dy, "[{}] expected dy {}, got {}", call.op.name, to_string(dy),
        to_string(call.in[0].shape));
  return {TensorType{call.in[0].dtype, a.shape}};
}

Types infer_max_backward(const InferCall& call) {
  check(call.in[1] == TensorType{DType::u8, call.in[0].shape}, "[{}] expected index u8{}, got {}", call.op.name,
        to_string(call.in[0].shape), to_string(call.in[1]));
  return infer_backward(call);
}

// What the windows chose, from another tensor of x's shape.
Types infer_gather(const InferCall& call) {
  rules::expect_float(call);
  const Shape out = pooled_shape(call.in[0].shape, call.attrs.as<Pool2dAttrs>(), "max_pool2d_gather");
  check(call.in[1] == TensorType{DType::u8, out}, "[max_pool2d_gather] expected index u8{}, got {}", to_string(out),
        to_string(call.in[1]));
  return {TensorType{call.in[0].dtype, out}};
}

std::vector<OpCase> pool_cases() {
  const auto one = [](Shape x, Pool2dAttrs a) { return OpCase{{{.shape = x, .distinct = true}}, a}; };
  return {one({2, 3, 4, 4}, {}),
          one({1, 2, 5, 7}, {{3, 2}, {2, 1}, {1, 0}}),
          one({1, 1, 6, 6}, {{3, 3}, {2, 2}, {0, 0}}),
          one({0, 2, 4, 4}, {}),
          one({2, 1, 24, 24}, {}),
          one({1, 2, 5, 5}, {{2, 2}, {1, 1}, {1, 1}}),
          one({1, 1, 9, 33}, {})};
}

std::vector<OpCase> backward_cases(bool with_index) {
  std::vector<OpCase> cases;
  for (const auto& c : pool_cases()) {
    const auto& a = c.attrs.as<Pool2dAttrs>();
    if (with_index && (a.padding[0] > 0 || a.padding[1] > 0)) continue;
    const Shape& x = c.in[0].shape;
    const Shape dy = pooled_shape(x, a, "cases");
    OpCase made{{{.shape = dy}}, grad_attrs(x, a)};
    const double windows = static_cast<double>(a.kernel[0] * a.kernel[1]);
    if (with_index) made.in.push_back({.shape = dy, .low = 0, .high = windows - 0.01, .dtype = DType::u8});
    cases.push_back(made);
  }
  return cases;
}

ShardRule shard_pool(const ShardCall& call) { return rules::shard_batch(call, 0b11); }

void register_max(OpRegistry& ops) {
  ops.add({.name = "max_pool2d",
           .doc = "The largest value of each window, and which one of the window it was.",
           .inputs = {"x"},
           .outputs = {"y", "index"},
           .attrs = &attr_type<Pool2dAttrs>(),
           .infer = infer_max,
           .gradient =
               [](const GradCall& c) {
                 static const OpDef& op = find_op("max_pool2d_backward");
                 if (!c.grads[0].defined()) return TensorList{Tensor()};
                 return TensorList{
                     apply1(op, {c.grads[0], c.out[1]}, grad_attrs(c.in[0].shape(), c.attrs.as<Pool2dAttrs>()))};
               },
           .shard = shard_pool,
           .cases = pool_cases,
           .saves = kSavesOutputs});
  ops.add({.name = "max_pool2d_backward",
           .doc = "dy at the chosen element of each window, summed where windows overlap.",
           .inputs = {"dy", "index"},
           .outputs = {"dx"},
           .attrs = &attr_type<Pool2dGradAttrs>(),
           .infer = infer_max_backward,
           .gradient =
               [](const GradCall& c) {
                 static const OpDef& op = find_op("max_pool2d_gather");
                 return TensorList{apply1(op, {c.grads[0], c.in[1]}, plain(c.attrs.as<Pool2dGradAttrs>())), Tensor()};
               },
           .shard = shard_pool,
           .cases = [] { return backward_cases(true); },
           .saves = kSavesInputs});
  ops.add({.name = "max_pool2d_gather",
           .doc = "The elements of x that an earlier max_pool2d chose.",
           .inputs = {"x", "index"},
           .attrs = &attr_type<Pool2dAttrs>(),
           .infer = infer_gather,
           .gradient =
               [](const GradCall& c) {
                 static const OpDef& op = find_op("max_pool2d_backward");
                 return TensorList{
                     apply1(op, {c.grads[0], c.in[1]}, grad_attrs(c.in[0].shape(), c.attrs.as<Pool2dAttrs>())),
                     Tensor()};
               },
           .shard = shard_pool,
           .cases =
               [] {
                 std::vector<OpCase> cases;
                 for (const auto& c : backward_cases(true)) {
                   const auto& a = c.attrs.as<Pool2dGradAttrs>();
                   cases.push_back({{{.shape = a.shape}, c.in[1]}, plain(a)});
                 }
                 return cases;
               },
           .saves = kSavesInputs});
}

}  // namespace

void register_ops_pool(OpRegistry& ops) {
  register_max(ops);
  ops.add({.name = "avg_pool2d",
           .doc = "The mean of each window; padding counts as zeros.",
           .inputs = {"x"},
           .attrs = &attr_type<Pool2dAttrs>(),
           .infer = infer_avg,
           .gradient =
               [](const GradCall& c) {
                 static const OpDef& op = find_op("avg_pool2d_backward");
                 return TensorList{apply1(op, {c.grads[0]}, grad_attrs(c.in[0].shape(), c.attrs.as<Pool2dAttrs>()))};
               },
           .shard = shard_pool,
           .cases = pool_cases,
           .saves = kSavesNothing});
  ops.add(
      {.name = "avg_pool2d_backward",
       .doc = "dy spread evenly over each window.",
       .inputs = {"dy"},
       .outputs = {"dx"},
       .attrs = &attr_type<Pool2dGradAttrs>(),
       .infer = infer_backward,
       .gradient =
           [](const GradCall& c) { return TensorList{avg_pool2d(c.grads[0], plain(c.attrs.as<Pool2dGradAttrs>()))}; },
       .shard = shard_pool,
       .cases = [] { return backward_cases(false); },
       .saves = kSavesNothing});
}

}  // namespace starling
