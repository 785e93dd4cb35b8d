#include "starling/ops/api/conv.h"

#include "starling/base/error.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/apply_biased.h"
#include "starling/ops/def/conv_geometry.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {
Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias, const op::Conv1dAttrs& attrs) {
  return apply_biased(named_op<"conv1d">(), x, weight, bias, attrs);
}
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const op::Conv2dAttrs& attrs) {
  return apply_biased(named_op<"conv2d">(), x, weight, bias, attrs);
}
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias, const op::Conv3dAttrs& attrs) {
  return apply_biased(named_op<"conv3d">(), x, weight, bias, attrs);
}
Tensor op::conv2d_backward_input(const Tensor& dy, const Tensor& weight, const op::Conv2dGradAttrs& attrs) {
  return apply1(named_op<"conv2d_backward_input">(), {dy, weight}, attrs);
}
Tensor op::conv2d_backward_weight(const Tensor& dy, const Tensor& x, const op::Conv2dGradAttrs& attrs) {
  return apply1(named_op<"conv2d_backward_weight">(), {dy, x}, attrs);
}
Tensor op::conv3d_backward_input(const Tensor& dy, const Tensor& weight, const op::Conv3dGradAttrs& attrs) {
  return apply1(named_op<"conv3d_backward_input">(), {dy, weight}, attrs);
}
Tensor op::conv3d_backward_weight(const Tensor& dy, const Tensor& x, const op::Conv3dGradAttrs& attrs) {
  return apply1(named_op<"conv3d_backward_weight">(), {dy, x}, attrs);
}

std::int64_t same_padding(std::int64_t kernel, std::int64_t dilation) {
  check(kernel >= 1 && dilation >= 1 && kernel < (1LL << 31) && dilation < (1LL << 31),
        "[same_padding] expected a kernel and a dilation of at least 1, got {} and {}", kernel, dilation);
  const std::int64_t whole = dilation * (kernel - 1);
  check(whole % 2 == 0, "[same_padding] expected a window of odd extent, got kernel {} with dilation {}", kernel,
        dilation);
  return whole / 2;
}

namespace {

// Overloads by number of dimensions, selected by the attributes' type.
Tensor forward(const Tensor& x, const Tensor& w, const op::Conv2dAttrs& a) { return conv2d(x, w, {}, a); }
Tensor forward(const Tensor& x, const Tensor& w, const op::Conv3dAttrs& a) { return conv3d(x, w, {}, a); }
Tensor backward_input(const Tensor& dy, const Tensor& w, const op::Conv2dGradAttrs& a) {
  return op::conv2d_backward_input(dy, w, a);
}
Tensor backward_input(const Tensor& dy, const Tensor& w, const op::Conv3dGradAttrs& a) {
  return op::conv3d_backward_input(dy, w, a);
}
Tensor backward_weight(const Tensor& dy, const Tensor& x, const op::Conv2dGradAttrs& a) {
  return op::conv2d_backward_weight(dy, x, a);
}
Tensor backward_weight(const Tensor& dy, const Tensor& x, const op::Conv3dGradAttrs& a) {
  return op::conv3d_backward_weight(dy, x, a);
}

op::Conv2dGradAttrs grad_attrs(const Shape& shape, const op::Conv2dAttrs& a) {
  return {shape, a.stride, a.padding, a.dilation, a.groups};
}
op::Conv3dGradAttrs grad_attrs(const Shape& shape, const op::Conv3dAttrs& a) {
  return {shape, a.stride, a.padding, a.dilation, a.groups};
}
op::Conv2dAttrs plain(const op::Conv2dGradAttrs& a) { return {a.stride, a.padding, a.dilation, a.groups, {}}; }
op::Conv3dAttrs plain(const op::Conv3dGradAttrs& a) { return {a.stride, a.padding, a.dilation, a.groups, {}}; }
template <class G>
G reshaped(G a, const Shape& shape) {
  a.shape = shape;
  return a;
}

template <class A>
Types infer_conv(const InferCall& call) {
  rules::expect_same_dtype(call);
  rules::expect_float(call);
  const auto& a = call.attrs.as<A>();
  const char* who = call.op.name.c_str();
  const auto& activation = a.activation.str();
  check(activation.empty() || activation == "relu" || activation == "tanh" || activation == "sigmoid",
        "[{}] expected an activation of relu, tanh, sigmoid or none, got '{}'", who, activation);
  const ConvGeometry g = conv_geometry(call.in[0].shape, call.in[1].shape, a, who);
  if (call.in.size() == 3) {
    check(call.in[2].shape == Shape{g.y[1]}, "[{}] expected a bias [{}], got {}", who, g.y[1],
          to_string(call.in[2].shape));
  }
  return {TensorType{call.in[0].dtype, without_unit_sizes(g.y, spatial_rank(a.stride))}};
}

Types infer_residual(const InferCall& call) {
  const Types y = infer_conv<op::Conv2dAttrs>({call.op, call.in.first(3), call.attrs});
  rules::expect_same_dtype(call);
  check(call.in[3].shape == y[0].shape, "[{}] expected a residual {}, got {}", call.op.name, to_string(y[0].shape),
        to_string(call.in[3].shape));
  return y;
}

template <class G>
Types infer_grad(const InferCall& call, bool of_input) {
  rules::expect_same_dtype(call);
  rules::expect_float(call);
  const auto& a = call.attrs.as<G>();
  const Shape& other = call.in[1].shape;
  const ConvGeometry g = conv_geometry(of_input ? a.shape : other, of_input ? other : a.shape, a, call.op.name.c_str());
  const Shape dy = without_unit_sizes(g.y, spatial_rank(a.stride));
  check(dy == call.in[0].shape, "[{}] expected dy {}, got {}", call.op.name, to_string(dy),
        to_string(call.in[0].shape));
  return {TensorType{call.in[0].dtype, a.shape}};
}

Shape all_but_channels(int rank) {
  Shape axes{0};
  for (int i = 2; i < rank; ++i) axes.push_back(i);
  return axes;
}

template <class A>
TensorList grad_conv(const GradCall& c) {
  const auto& a = c.attrs.as<A>();
  const Tensor g = op::activation_backward(a.activation, c.grads[0], c.out[0]);
  TensorList out(c.in.size());
  if (c.needs(0)) out[0] = backward_input(g, c.in[1], grad_attrs(c.in[0].shape(), a));
  if (c.needs(1)) out[1] = backward_weight(g, c.in[0], grad_attrs(c.in[1].shape(), a));
  if (c.in.size() == 3 && c.needs(2)) out[2] = sum(g, {.axes = all_but_channels(g.rank())});
  return out;
}

// 1-D inputs as images of height 1.
Shape as_image(const Shape& line) { return {line[0], line[1], 1, line[2]}; }
op::Conv2dAttrs as_image(const op::Conv1dAttrs& a) {
  return {{1, a.stride}, {0, a.padding}, {1, a.dilation}, a.groups, {}};
}

TensorList grad_conv1d(const GradCall& c) {
  const auto& a = c.attrs.as<op::Conv1dAttrs>();
  const Tensor g = op::activation_backward(a.activation, c.grads[0], c.out[0]);
  const Tensor image = reshape(g, as_image(g.shape()));
  const Shape &x = c.in[0].shape(), &w = c.in[1].shape();
  TensorList out(c.in.size());
  if (c.needs(0)) {
    const auto to = grad_attrs(as_image(x), as_image(a));
    out[0] = reshape(op::conv2d_backward_input(image, reshape(c.in[1], as_image(w)), to), x);
  }
  if (c.needs(1)) {
    const auto to = grad_attrs(as_image(w), as_image(a));
    out[1] = reshape(op::conv2d_backward_weight(image, reshape(c.in[0], as_image(x)), to), w);
  }
  if (c.in.size() == 3 && c.needs(2)) out[2] = sum(g, {.axes = {0, 2}});
  return out;
}

// All three ops are bilinear, so their gradients are each other.
template <class G>
TensorList grad_backward_input(const GradCall& c) {
  const auto& a = c.attrs.as<G>();
  return {c.needs(0) ? forward(c.grads[0], c.in[1], plain(a)) : Tensor(),
          c.needs(1) ? backward_weight(c.in[0], c.grads[0], reshaped(a, c.in[1].shape())) : Tensor()};
}

template <class G>
TensorList grad_backward_weight(const GradCall& c) {
  const auto& a = c.attrs.as<G>();
  return {c.needs(0) ? forward(c.in[1], c.grads[0], plain(a)) : Tensor(),
          c.needs(1) ? backward_input(c.in[0], c.grads[0], reshaped(a, c.in[1].shape())) : Tensor()};
}

ShardRule shard_weight(const ShardCall& call) {
  if (!call.layouts[0].is_split(0) && !call.layouts[1].is_split(0)) return rules::shard_replicated(call);
  return {{Layout::split(0), Layout::split(0)}, {Layout::partial()}};
}
ShardRule shard_images(const ShardCall& call) { return rules::shard_batch(call, 1); }

template <class A>
OpCase make_case(const Shape& x, const Shape& w, const A& a, bool bias) {
  OpCase c{{{.shape = x}, {.shape = w}}, a};
  if (bias) c.in.push_back({.shape = {w[0]}});
  return c;
}

std::vector<OpCase> cases_1d() {
  const auto make = make_case<op::Conv1dAttrs>;
  return {make({2, 1, 9}, {3, 1, 3}, {}, true),
          make({1, 2, 8}, {2, 2, 2}, {.stride = 2, .padding = 1}, false),
          make({2, 4, 7}, {4, 2, 3}, {.padding = 2, .groups = 2, .activation = Symbol("tanh")}, true),
          make({1, 2, 11}, {3, 2, 3}, {.dilation = 3}, false),
          make({0, 2, 5}, {3, 2, 3}, {}, true),
          make({2, 3, 4}, {5, 3, 1}, {.activation = Symbol("sigmoid")}, true),
          make({1, 3, 40}, {4, 3, 5}, {.stride = 3, .padding = 2}, true),
          make({1, 3, 35}, {3, 1, 3}, {.padding = 1, .groups = 3}, true)};
}

std::vector<OpCase> cases_2d() {
  const auto make = make_case<op::Conv2dAttrs>;
  return {
      make({2, 1, 5, 5}, {3, 1, 3, 3}, {}, true),
      make({1, 2, 6, 5}, {2, 2, 3, 2}, {.stride = {2, 1}, .padding = {1, 0}}, false),
      make({2, 4, 5, 5}, {4, 2, 3, 3}, {.padding = {2, 1}, .groups = 2, .activation = Symbol("tanh")}, true),
      make({1, 2, 7, 7}, {3, 2, 3, 3}, {.dilation = {2, 2}}, false),
      make({0, 2, 5, 5}, {3, 2, 3, 3}, {}, true),
      make({2, 3, 4, 4}, {5, 3, 1, 1}, {.activation = Symbol("sigmoid")}, true),
      make({1, 3, 9, 8}, {4, 3, 5, 5}, {.stride = {3, 2}, .padding = {2, 2}}, true),
      make({1, 3, 6, 18}, {6, 1, 3, 3}, {.padding = {1, 1}, .groups = 3}, true),
      make({2, 2, 7, 9}, {2, 1, 3, 5}, {.stride = {2, 2}, .padding = {1, 2}, .dilation = {2, 1}, .groups = 2}, false)};
}

std::vector<OpCase> cases_3d() {
  const auto make = make_case<op::Conv3dAttrs>;
  return {
      make({1, 1, 3, 4, 5}, {2, 1, 2, 3, 3}, {}, true),
      make({1, 2, 4, 5, 4}, {2, 2, 3, 3, 2}, {.stride = {2, 1, 2}, .padding = {1, 0, 1}}, false),
      make({2, 4, 2, 3, 3}, {4, 2, 1, 3, 2}, {.padding = {0, 1, 2}, .groups = 2, .activation = Symbol("tanh")}, true),
      make({1, 1, 5, 6, 5}, {2, 1, 3, 2, 2}, {.dilation = {2, 3, 1}}, false),
      make({0, 2, 3, 3, 3}, {3, 2, 2, 2, 2}, {}, true),
      make({2, 3, 2, 2, 3}, {4, 3, 1, 1, 1}, {.activation = Symbol("sigmoid")}, true),
      make({1, 1, 4, 3, 12}, {2, 1, 2, 2, 3}, {.stride = {1, 2, 1}, .padding = {1, 1, 1}}, true),
      make({1, 2, 3, 3, 4}, {4, 1, 3, 3, 3}, {.padding = {1, 1, 1}, .groups = 2}, true)};
}

template <class A>
std::vector<OpCase> grad_cases(const std::vector<OpCase>& forward, bool of_input) {
  std::vector<OpCase> cases;
  for (const auto& c : forward) {
    const auto& a = c.attrs.as<A>();
    const ConvGeometry g = conv_geometry(c.in[0].shape, c.in[1].shape, a, "cases");
    const Shape dy = without_unit_sizes(g.y, spatial_rank(a.stride));
    const Shape& target = c.in[of_input ? 0 : 1].shape;
    cases.push_back({{{.shape = dy}, {.shape = c.in[of_input ? 1 : 0].shape}}, grad_attrs(target, a)});
  }
  return cases;
}

// Every output is a sum over its taps.
double flops_of_conv(const CostCall& call) {
  const double y = costs::elements(call.out[0]);
  return 2 * y * costs::taps(call.in[1]) + (call.in.size() > 2 ? y : 0) + (costs::activated(call) ? y : 0);
}
double flops_of_conv_input(const CostCall& call) { return 2 * costs::elements(call.in[0]) * costs::taps(call.in[1]); }
double flops_of_conv_weight(const CostCall& call) { return 2 * costs::elements(call.in[0]) * costs::taps(call.out[0]); }

template <class A>
OpDef conv_op(const char* name, const char* doc, const std::function<TensorList(const GradCall&)>& gradient,
              Tensor (*conv)(const Tensor&, const Tensor&, const Tensor&, const A&),
              const std::function<std::vector<OpCase>()>& cases) {
  return {.name = name,
          .doc = doc,
          .inputs = {"x", "weight", "bias?"},
          .attrs = &attr_type<A>(),
          .infer = infer_conv<A>,
          .gradient = gradient,
          .decompose =
              [conv](std::span<const Tensor> in, const Attrs& attrs) {
                A a = attrs.as<A>();
                const Symbol activation = a.activation;
                a.activation = {};
                return TensorList{op::activate(activation, conv(in[0], in[1], in.size() == 3 ? in[2] : Tensor(), a))};
              },
          .shard = shard_images,
          .cases = cases,
          .saves = kSavesAll,
          .cost = {flops_of_conv},
          .precision = Width::narrow};
}

std::vector<OpCase> cases_residual() {
  std::vector<OpCase> cases;
  for (OpCase c : cases_2d()) {
    auto a = c.attrs.as<op::Conv2dAttrs>();
    const Shape y = without_unit_sizes(conv_geometry(c.in[0].shape, c.in[1].shape, a, "cases").y, 2);
    if (cases.size() % 2 == 0) a.activation = Symbol("relu");
    if (c.in.size() < 3) c.in.push_back({.shape = {c.in[1].shape[0]}});
    c.in.push_back({.shape = y});
    cases.push_back({c.in, a});
  }
  return cases;
}

TensorList decompose_residual(std::span<const Tensor> in, const Attrs& attrs) {
  op::Conv2dAttrs a = attrs.as<op::Conv2dAttrs>();
  const Symbol activation = a.activation;
  a.activation = {};
  return {op::activate(activation, add(conv2d(in[0], in[1], in[2], a), in[3]))};
}

template <class A, class G>
void register_backward(OpRegistry& ops, const std::string& name, std::vector<OpCase> (*cases)()) {
  ops.add({.name = name + "_backward_input",
           .doc = "The gradient of " + name + " for its input.",
           .inputs = {"dy", "weight"},
           .outputs = {"dx"},
           .attrs = &attr_type<G>(),
           .infer = [](const InferCall& call) { return infer_grad<G>(call, true); },
           .gradient = grad_backward_input<G>,
           .shard = shard_images,
           .cases = [cases] { return grad_cases<A>(cases(), true); },
           .saves = kSavesInputs,
           .cost = {flops_of_conv_input},
           .precision = Width::wide});
  ops.add({.name = name + "_backward_weight",
           .doc = "The gradient of " + name + " for its weight.",
           .inputs = {"dy", "x"},
           .outputs = {"dw"},
           .attrs = &attr_type<G>(),
           .infer = [](const InferCall& call) { return infer_grad<G>(call, false); },
           .gradient = grad_backward_weight<G>,
           .shard = shard_weight,
           .cases = [cases] { return grad_cases<A>(cases(), false); },
           .saves = kSavesInputs,
           .cost = {flops_of_conv_weight},
           .precision = Width::wide});
}

}  // namespace

void register_ops_conv(OpRegistry& ops) {
  ops.add(conv_op<op::Conv1dAttrs>(
      "conv1d", "One-dimensional convolution (cross-correlation) of [n, c, l], with bias and activation.", grad_conv1d,
      conv1d, cases_1d));
  ops.add(conv_op<op::Conv2dAttrs>(
      "conv2d", "Two-dimensional convolution (cross-correlation) of [n, c, h, w], with bias and activation.",
      grad_conv<op::Conv2dAttrs>, conv2d, cases_2d));
  ops.add(conv_op<op::Conv3dAttrs>(
      "conv3d", "Three-dimensional convolution (cross-correlation) of [n, c, d, h, w], with bias and activation.",
      grad_conv<op::Conv3dAttrs>, conv3d, cases_3d));
  ops.add({.name = "conv2d_residual",
           .doc = "Activation of the sum of conv2d, with a bias, and a residual.",
           .inputs = {"x", "weight", "bias", "residual"},
           .attrs = &attr_type<op::Conv2dAttrs>(),
           .infer = infer_residual,
           .decompose = decompose_residual,
           .cases = cases_residual,
           .plain = true,
           .cost = {flops_of_conv},
           .precision = Width::narrow});
  register_backward<op::Conv2dAttrs, op::Conv2dGradAttrs>(ops, "conv2d", cases_2d);
  register_backward<op::Conv3dAttrs, op::Conv3dGradAttrs>(ops, "conv3d", cases_3d);
}

}  // namespace starling
