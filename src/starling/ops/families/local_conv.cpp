#include "starling/ops/api/local_conv.h"

#include "starling/base/error.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/api/unfold.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/conv_geometry.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor local_conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const op::LocalConv2dAttrs& attrs) {
  const OpDef& op = named_op<"local_conv2d">();
  if (bias.defined()) return apply1(op, {x, weight, bias}, attrs);
  return apply1(op, {x, weight}, attrs);
}

Tensor op::local_conv2d_backward_input(const Tensor& dy, const Tensor& weight, const LocalConv2dGradAttrs& attrs) {
  return apply1(named_op<"local_conv2d_backward_input">(), {dy, weight}, attrs);
}
Tensor op::local_conv2d_backward_weight(const Tensor& dy, const Tensor& x, const LocalConv2dGradAttrs& attrs) {
  return apply1(named_op<"local_conv2d_backward_weight">(), {dy, x}, attrs);
}

namespace {

Types infer_local(const InferCall& call) {
  rules::expect_same_dtype(call);
  rules::expect_float(call);
  rules::expect_rank(call, 0, 4);
  rules::expect_rank(call, 1, 3);
  const auto& a = call.attrs.as<op::LocalConv2dAttrs>();
  const Shape &x = call.in[0].shape, &w = call.in[1].shape;
  const Pair counts = window_counts(x, {a.kernel, a.stride, a.padding, a.dilation}, "local_conv2d");
  std::int64_t positions = 0, taps = 0;
  check(!__builtin_mul_overflow(counts[0], counts[1], &positions) &&
            !__builtin_mul_overflow(a.kernel[0], a.kernel[1], &taps) && !__builtin_mul_overflow(taps, x[1], &taps) &&
            w[0] == positions && w[2] == taps,
        "[local_conv2d] expected weight [{} · {}, out, {} · {} · {}], got {}", counts[0], counts[1], x[1], a.kernel[0],
        a.kernel[1], to_string(w));
  if (call.in.size() == 3) {
    check(call.in[2].shape == Shape{w[1], counts[0], counts[1]}, "[local_conv2d] expected a bias [{}, {}, {}], got {}",
          w[1], counts[0], counts[1], to_string(call.in[2].shape));
  }
  return {TensorType{call.in[0].dtype, {x[0], w[1], counts[0], counts[1]}}};
}

op::LocalConv2dGradAttrs to_shape(const Shape& shape, const op::LocalConv2dAttrs& a) {
  return {shape, a.kernel, a.stride, a.padding, a.dilation};
}
op::LocalConv2dAttrs plain(const op::LocalConv2dGradAttrs& a) { return {a.kernel, a.stride, a.padding, a.dilation}; }

// Gradients by ops of their own, which read or write every weight once and hold no windows: on a GPU, where the weights
// are billions. The CPU's are products, which layouts know how to split.
TensorList grad_by_ops(const GradCall& c) {
  const auto& a = c.attrs.as<op::LocalConv2dAttrs>();
  TensorList out(c.in.size());
  if (c.needs(0)) out[0] = op::local_conv2d_backward_input(c.grads[0], c.in[1], to_shape(c.in[0].shape(), a));
  if (c.needs(1)) out[1] = op::local_conv2d_backward_weight(c.grads[0], c.in[0], to_shape(c.in[1].shape(), a));
  if (c.in.size() == 3 && c.needs(2)) out[2] = sum(c.grads[0], {.axes = {0}});
  return out;
}

// With one matrix of windows per position, the layer is a product: y [p, n, out] = u [p, n, k] · w [p, out, k]ᵀ.
TensorList grad_local(const GradCall& c) {
  if (c.in[0].device().kind == DeviceKind::cuda && c.in[0].dtype() == DType::f32) return grad_by_ops(c);
  const auto& a = c.attrs.as<op::LocalConv2dAttrs>();
  const Shape &x = c.in[0].shape(), &w = c.in[1].shape();
  const Tensor& g = c.grads[0];
  const Tensor gradients = transpose(reshape(g, {x[0], w[1], w[0]}), {2, 0, 1});  // [p, n, out]
  TensorList out(c.in.size());
  if (c.needs(0)) {
    const Tensor columns = transpose(matmul(gradients, c.in[1]), {1, 2, 0});  // [n, k, p]
    out[0] = fold(columns, {{x[2], x[3]}, a.kernel, a.stride, a.padding, a.dilation});
  }
  if (c.needs(1)) {
    const Tensor windows = transpose(unfold(c.in[0], {a.kernel, a.stride, a.padding, a.dilation}), {2, 0, 1});
    out[1] = matmul(gradients, windows, {.trans_a = true});
  }
  if (c.in.size() == 3 && c.needs(2)) out[2] = sum(g, {.axes = {0}});
  return out;
}

std::vector<OpCase> local_cases() {
  const auto make = [](Shape x, std::int64_t out, op::LocalConv2dAttrs a, bool bias) {
    const Pair n = window_counts(x, {a.kernel, a.stride, a.padding, a.dilation}, "cases");
    OpCase c{{{.shape = x}, {.shape = {n[0] * n[1], out, x[1] * a.kernel[0] * a.kernel[1]}}}, a};
    if (bias) c.in.push_back({.shape = {out, n[0], n[1]}});
    return c;
  };
  return {make({2, 1, 4, 4}, 2, {.kernel = {3, 3}}, true),
          make({1, 2, 5, 4}, 2, {.kernel = {2, 3}, .stride = {2, 1}}, false),
          make({2, 2, 3, 3}, 1, {.kernel = {2, 2}, .padding = {1, 0}}, true),
          make({1, 1, 5, 6}, 3, {.kernel = {2, 2}, .dilation = {3, 2}}, true),
          make({0, 2, 3, 3}, 2, {.kernel = {2, 2}}, true),
          make({3, 3, 2, 3}, 2, {}, true),
          make({2, 2, 3, 6}, 1, {.kernel = {3, 3}, .stride = {1, 2}, .padding = {0, 1}}, true),
          make({1, 2, 3, 3}, 5, {.kernel = {3, 3}}, false)};
}

// Result and the other operand of a gradient, whose attributes name the shape of the result.
Types infer_backward(const InferCall& call, bool of_input) {
  rules::expect_same_dtype(call);
  rules::expect_float(call);
  rules::expect_rank(call, 0, 4);
  rules::expect_rank(call, 1, of_input ? 3 : 4);
  const auto& a = call.attrs.as<op::LocalConv2dGradAttrs>();
  check(a.shape.rank() == (of_input ? 4 : 3), "[{}] expected the shape of {}, got {}", call.op.name,
        of_input ? "x [n, c, h, w]" : "a weight [positions, out, taps]", to_string(a.shape));
  const DType dtype = call.in[0].dtype;
  const Shape &x = of_input ? a.shape : call.in[1].shape, &w = of_input ? call.in[1].shape : a.shape;
  const TensorType of_forward[] = {{dtype, x}, {dtype, w}};
  const Attrs forward = plain(a);
  const Types y = infer_local({call.op, of_forward, forward});
  check(y[0].shape == call.in[0].shape, "[{}] expected dy {}, got {}", call.op.name, to_string(y[0].shape),
        to_string(call.in[0]));
  return {TensorType{dtype, a.shape}};
}
Types infer_backward_input(const InferCall& call) { return infer_backward(call, true); }
Types infer_backward_weight(const InferCall& call) { return infer_backward(call, false); }

// All three ops are linear in each operand, so their gradients are each other.
TensorList grad_backward_input(const GradCall& c) {
  const auto& a = c.attrs.as<op::LocalConv2dGradAttrs>();
  TensorList out(2);
  if (c.needs(0)) out[0] = local_conv2d(c.grads[0], c.in[1], {}, plain(a));
  if (c.needs(1)) out[1] = op::local_conv2d_backward_weight(c.in[0], c.grads[0], to_shape(c.in[1].shape(), plain(a)));
  return out;
}
TensorList grad_backward_weight(const GradCall& c) {
  const auto& a = c.attrs.as<op::LocalConv2dGradAttrs>();
  TensorList out(2);
  if (c.needs(0)) out[0] = local_conv2d(c.in[1], c.grads[0], {}, plain(a));
  if (c.needs(1)) out[1] = op::local_conv2d_backward_input(c.in[0], c.grads[0], to_shape(c.in[1].shape(), plain(a)));
  return out;
}

std::vector<OpCase> backward_cases(bool of_input) {
  std::vector<OpCase> cases;
  for (const auto& forward : local_cases()) {
    const auto& a = forward.attrs.as<op::LocalConv2dAttrs>();
    const Shape &x = forward.in[0].shape, &w = forward.in[1].shape;
    const Pair n = window_counts(x, {a.kernel, a.stride, a.padding, a.dilation}, "cases");
    cases.push_back(
        {{{.shape = {x[0], w[1], n[0], n[1]}}, {.shape = of_input ? w : x}}, to_shape(of_input ? x : w, a)});
  }
  return cases;
}

double flops_of_backward(const CostCall& call) {
  const auto& w = call.in[1].shape.rank() == 3 ? call.in[1] : call.out[0];
  return 2 * costs::size(call.in[0], 0) * costs::elements(w);
}

double flops_of_local_conv(const CostCall& call) {
  return 2 * costs::size(call.in[0], 0) * costs::elements(call.in[1]) +
         (call.in.size() > 2 ? costs::elements(call.out[0]) : 0);
}

}  // namespace

void register_ops_local_conv(OpRegistry& ops) {
  ops.add(
      {.name = "local_conv2d",
       .doc = "A convolution of [n, c, h, w] with weights [positions, out, c * kh * kw] of its own at each position.",
       .inputs = {"x", "weight", "bias?"},
       .attrs = &attr_type<op::LocalConv2dAttrs>(),
       .infer = infer_local,
       .gradient = grad_local,
       .shard = [](const ShardCall& call) { return rules::shard_batch(call, 1); },
       .cases = local_cases,
       .saves = kSavesInputs,
       .cost = {flops_of_local_conv},
       .precision = Width::narrow});
  ops.add({.name = "local_conv2d_backward_input",
           .doc = "The gradient of local_conv2d for x.",
           .inputs = {"dy", "weight"},
           .outputs = {"dx"},
           .attrs = &attr_type<op::LocalConv2dGradAttrs>(),
           .infer = infer_backward_input,
           .gradient = grad_backward_input,
           .cases = [] { return backward_cases(true); },
           .saves = kSavesInputs,
           .plain = true,
           .cost = {flops_of_backward},
           .precision = Width::narrow});
  ops.add({.name = "local_conv2d_backward_weight",
           .doc = "The gradient of local_conv2d for its weight.",
           .inputs = {"dy", "x"},
           .outputs = {"dweight"},
           .attrs = &attr_type<op::LocalConv2dGradAttrs>(),
           .infer = infer_backward_weight,
           .gradient = grad_backward_weight,
           .cases = [] { return backward_cases(false); },
           .saves = kSavesInputs,
           .plain = true,
           .cost = {flops_of_backward},
           .precision = Width::narrow});
}

}  // namespace starling
