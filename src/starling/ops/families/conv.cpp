#include "starling/ops/conv.h"

#include "starling/base/error.h"
#include "starling/ops/apply.h"
#include "starling/ops/matmul.h"
#include "starling/ops/reduce.h"
#include "starling/ops/registry.h"
#include "starling/ops/rules.h"

namespace starling {

Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const Conv2dAttrs& attrs) {
  static const OpDef& op = find_op("conv2d");
  if (bias.defined()) return apply1(op, {x, weight, bias}, attrs);
  return apply1(op, {x, weight}, attrs);
}

Tensor conv2d_backward_input(const Tensor& dy, const Tensor& weight, const Conv2dGradAttrs& attrs) {
  static const OpDef& op = find_op("conv2d_backward_input");
  return apply1(op, {dy, weight}, attrs);
}

Tensor conv2d_backward_weight(const Tensor& dy, const Tensor& x, const Conv2dGradAttrs& attrs) {
  static const OpDef& op = find_op("conv2d_backward_weight");
  return apply1(op, {dy, x}, attrs);
}

std::int64_t window_count(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                          std::int64_t dilation, const char* who) {
  check(kernel >= 1 && stride >= 1 && padding >= 0 && dilation >= 1,
        "[{}] expected kernel, stride and dilation of at least 1 and padding of at least 0, got {}, {}, {} and {}", who,
        kernel, stride, dilation, padding);
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  check(kernel < kMost && stride < kMost && padding < kMost && dilation < kMost && size < kMost,
        "[{}] expected sizes below 2^31, got kernel {}, stride {}, padding {}, dilation {}, input {}", who, kernel,
        stride, padding, dilation, size);
  const auto span = dilation * (kernel - 1) + 1;
  check(span <= size + 2 * padding, "[{}] expected a window of at most {} (input {} with padding {}), got {}", who,
        size + 2 * padding, size, padding, span);
  return (size + 2 * padding - span) / stride + 1;
}

namespace {

struct Geometry {
  Shape x, w;
  Pair stride, padding, dilation;
  std::int64_t groups;
};

Shape conv_shape(const Geometry& g, const char* who) {
  check(g.x.rank() == 4 && g.w.rank() == 4, "[{}] expected x [n, c, h, w] and weight [out, c, kh, kw], got {} and {}",
        who, to_string(g.x), to_string(g.w));
  check(g.groups >= 1 && g.x[1] % g.groups == 0 && g.x[1] / g.groups == g.w[1] && g.w[0] % g.groups == 0,
        "[{}] expected channels to agree with {} groups, got x {} and weight {}", who, g.groups, to_string(g.x),
        to_string(g.w));
  return {g.x[0], g.w[0], window_count(g.x[2], g.w[2], g.stride[0], g.padding[0], g.dilation[0], who),
          window_count(g.x[3], g.w[3], g.stride[1], g.padding[1], g.dilation[1], who)};
}

Types infer_conv(const InferCall& call) {
  rules::expect_same_dtype(call);
  rules::expect_float(call);
  const auto& a = call.attrs.as<Conv2dAttrs>();
  const auto& activation = a.activation.str();
  check(activation.empty() || activation == "relu" || activation == "tanh" || activation == "sigmoid",
        "[conv2d] expected an activation of relu, tanh, sigmoid or none, got '{}'", activation);
  const Shape out =
      conv_shape({call.in[0].shape, call.in[1].shape, a.stride, a.padding, a.dilation, a.groups}, "conv2d");
  if (call.in.size() == 3) {
    check(call.in[2].shape == Shape{out[1]}, "[conv2d] expected a bias [{}], got {}", out[1],
          to_string(call.in[2].shape));
  }
  return {TensorType{call.in[0].dtype, out}};
}

Types infer_grad(const InferCall& call, bool of_input) {
  rules::expect_same_dtype(call);
  rules::expect_float(call);
  const auto& a = call.attrs.as<Conv2dGradAttrs>();
  const Shape& other = call.in[1].shape;
  const Shape dy =
      conv_shape({of_input ? a.shape : other, of_input ? other : a.shape, a.stride, a.padding, a.dilation, a.groups},
                 call.op.name.c_str());
  check(dy == call.in[0].shape, "[{}] expected dy {}, got {}", call.op.name, to_string(dy),
        to_string(call.in[0].shape));
  return {TensorType{call.in[0].dtype, a.shape}};
}

Conv2dGradAttrs grad_attrs(const Shape& shape, const Conv2dAttrs& a) {
  return {shape, a.stride, a.padding, a.dilation, a.groups};
}
Conv2dAttrs plain(const Conv2dGradAttrs& a) { return {a.stride, a.padding, a.dilation, a.groups, {}}; }
Conv2dGradAttrs reshaped(Conv2dGradAttrs a, const Shape& shape) {
  a.shape = shape;
  return a;
}

TensorList grad_conv(const GradCall& c) {
  const auto& a = c.attrs.as<Conv2dAttrs>();
  const Tensor g = activation_backward(a.activation, c.grads[0], c.out[0]);
  TensorList out(c.in.size());
  if (c.needs(0)) out[0] = conv2d_backward_input(g, c.in[1], grad_attrs(c.in[0].shape(), a));
  if (c.needs(1)) out[1] = conv2d_backward_weight(g, c.in[0], grad_attrs(c.in[1].shape(), a));
  if (c.in.size() == 3 && c.needs(2)) out[2] = sum(g, {.axes = {0, 2, 3}});
  return out;
}

// All three are bilinear, so their gradients are each other.
TensorList grad_backward_input(const GradCall& c) {
  const auto& a = c.attrs.as<Conv2dGradAttrs>();
  return {c.needs(0) ? conv2d(c.grads[0], c.in[1], {}, plain(a)) : Tensor(),
          c.needs(1) ? conv2d_backward_weight(c.in[0], c.grads[0], reshaped(a, c.in[1].shape())) : Tensor()};
}

TensorList grad_backward_weight(const GradCall& c) {
  const auto& a = c.attrs.as<Conv2dGradAttrs>();
  return {c.needs(0) ? conv2d(c.in[1], c.grads[0], {}, plain(a)) : Tensor(),
          c.needs(1) ? conv2d_backward_input(c.in[0], c.grads[0], reshaped(a, c.in[1].shape())) : Tensor()};
}

ShardRule shard_weight(const ShardCall& call) {
  if (!call.placed[0].is_split(0) && !call.placed[1].is_split(0)) return rules::shard_replicated(call);
  return {{Placement::split(0), Placement::split(0)}, {Placement::partial()}};
}

std::vector<OpCase> conv_cases() {
  const auto make = [](Shape x, Shape w, Conv2dAttrs a, bool bias) {
    OpCase c{{{.shape = x}, {.shape = w}}, a};
    if (bias) c.in.push_back({.shape = {w[0]}});
    return c;
  };
  return {make({2, 1, 5, 5}, {3, 1, 3, 3}, {}, true),
          make({1, 2, 6, 5}, {2, 2, 3, 2}, {.stride = {2, 1}, .padding = {1, 0}}, false),
          make({2, 4, 5, 5}, {4, 2, 3, 3}, {.padding = {2, 1}, .groups = 2, .activation = Symbol("tanh")}, true),
          make({1, 2, 7, 7}, {3, 2, 3, 3}, {.dilation = {2, 2}}, false),
          make({0, 2, 5, 5}, {3, 2, 3, 3}, {}, true),
          make({2, 3, 4, 4}, {5, 3, 1, 1}, {.activation = Symbol("sigmoid")}, true),
          make({1, 3, 9, 8}, {4, 3, 5, 5}, {.stride = {3, 2}, .padding = {2, 2}}, true)};
}

std::vector<OpCase> grad_cases(bool of_input) {
  std::vector<OpCase> cases;
  for (const auto& c : conv_cases()) {
    const auto& a = c.attrs.as<Conv2dAttrs>();
    const Shape dy = conv_shape({c.in[0].shape, c.in[1].shape, a.stride, a.padding, a.dilation, a.groups}, "cases");
    const Shape& target = c.in[of_input ? 0 : 1].shape;
    cases.push_back({{{.shape = dy}, {.shape = c.in[of_input ? 1 : 0].shape}}, grad_attrs(target, a)});
  }
  return cases;
}

}  // namespace

void register_ops_conv(OpRegistry& ops) {
  ops.add({.name = "conv2d",
           .doc = "Two-dimensional convolution (cross-correlation) of [n, c, h, w], with bias and activation.",
           .inputs = {"x", "weight", "bias?"},
           .attrs = &attr_type<Conv2dAttrs>(),
           .infer = infer_conv,
           .gradient = grad_conv,
           .decompose =
               [](std::span<const Tensor> in, const Attrs& attrs) {
                 Conv2dAttrs a = attrs.as<Conv2dAttrs>();
                 const Symbol activation = a.activation;
                 a.activation = {};
                 return TensorList{activate(activation, conv2d(in[0], in[1], in.size() == 3 ? in[2] : Tensor(), a))};
               },
           .shard = [](const ShardCall& call) { return rules::shard_batch(call, 1); },
           .cases = conv_cases,
           .saves = kSavesAll});
  ops.add({.name = "conv2d_backward_input",
           .doc = "The gradient of conv2d for its input.",
           .inputs = {"dy", "weight"},
           .outputs = {"dx"},
           .attrs = &attr_type<Conv2dGradAttrs>(),
           .infer = [](const InferCall& call) { return infer_grad(call, true); },
           .gradient = grad_backward_input,
           .shard = [](const ShardCall& call) { return rules::shard_batch(call, 1); },
           .cases = [] { return grad_cases(true); },
           .saves = kSavesInputs});
  ops.add({.name = "conv2d_backward_weight",
           .doc = "The gradient of conv2d for its weight.",
           .inputs = {"dy", "x"},
           .outputs = {"dw"},
           .attrs = &attr_type<Conv2dGradAttrs>(),
           .infer = [](const InferCall& call) { return infer_grad(call, false); },
           .gradient = grad_backward_weight,
           .shard = shard_weight,
           .cases = [] { return grad_cases(false); },
           .saves = kSavesInputs});
}

}  // namespace starling
