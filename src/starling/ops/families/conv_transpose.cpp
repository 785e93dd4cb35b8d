#include "starling/ops/api/conv_transpose.h"

#include "starling/base/error.h"
#include "starling/ops/api/conv.h"
#include "starling/ops/api/reduce.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/apply_biased.h"
#include "starling/ops/def/conv_geometry.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {
Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const op::ConvTranspose1dAttrs& attrs) {
  return apply_biased(named_op<"conv_transpose1d">(), x, weight, bias, attrs);
}
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const op::ConvTranspose2dAttrs& attrs) {
  return apply_biased(named_op<"conv_transpose2d">(), x, weight, bias, attrs);
}
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias,
                        const op::ConvTranspose3dAttrs& attrs) {
  return apply_biased(named_op<"conv_transpose3d">(), x, weight, bias, attrs);
}

namespace {

std::int64_t grown(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding, std::int64_t more,
                   std::int64_t dilation, const char* who) {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;
  check(size >= 1 && kernel >= 1 && stride >= 1 && padding >= 0 && dilation >= 1,
        "[{}] expected size, kernel, stride and dilation of at least 1 and padding of at least 0, got {}, {}, {}, {} "
        "and {}",
        who, size, kernel, stride, dilation, padding);
  check(size < kMost && kernel < kMost && stride < kMost && padding < kMost && dilation < kMost,
        "[{}] expected sizes below 2^31, got input {}, kernel {}, stride {}, padding {}, dilation {}", who, size,
        kernel, stride, padding, dilation);
  check(more >= 0 && more < stride, "[{}] expected output_padding of at least 0 and below the stride {}, got {}", who,
        stride, more);
  const std::int64_t steps = (size - 1) * stride, span = dilation * (kernel - 1);
  check(steps < kMost && span < kMost, "[{}] expected a result below 2^31, got stride {} and dilation {}", who, stride,
        dilation);
  const std::int64_t out = steps - 2 * padding + span + more + 1;
  check(out >= 1, "[{}] expected a result of at least 1, got {} from input {}, kernel {} and padding {}", who, out,
        size, kernel, padding);
  return out;
}

template <class A>
Shape result_shape(const Shape& x, const Shape& w, const A& a, const char* who) {
  const int dims = spatial_rank(a.stride);
  const Shape stride = spatial(a.stride), padding = spatial(a.padding), more = spatial(a.output_padding),
              dilation = spatial(a.dilation);
  check(stride.rank() == dims && padding.rank() == dims && more.rank() == dims && dilation.rank() == dims,
        "[{}] expected stride, padding, output_padding and dilation of {} numbers, got {}, {}, {} and {}", who, dims,
        to_string(stride), to_string(padding), to_string(more), to_string(dilation));
  check(x.rank() == dims + 2 && w.rank() == dims + 2,
        "[{}] expected x [n, c, sizes..] and weight [c, out / groups, kernel..] of {} dimensions, got {} and {}", who,
        dims + 2, to_string(x), to_string(w));
  std::int64_t channels = 0;
  check(a.groups >= 1 && x[1] == w[0] && x[1] % a.groups == 0 && !__builtin_mul_overflow(w[1], a.groups, &channels),
        "[{}] expected channels to agree with {} groups, got x {} and weight {}", who, a.groups, to_string(x),
        to_string(w));
  Shape y{x[0], channels};
  for (int i = 0; i < dims; ++i)
    y.push_back(grown(x[i + 2], w[i + 2], stride[i], padding[i], more[i], dilation[i], who));
  return y;
}

template <class A>
Types infer_transpose(const InferCall& call) {
  rules::expect_same_dtype(call);
  rules::expect_float(call);
  const Shape y = result_shape(call.in[0].shape, call.in[1].shape, call.attrs.as<A>(), call.op.name.c_str());
  if (call.in.size() == 3) {
    check(call.in[2].shape == Shape{y[1]}, "[{}] expected a bias [{}], got {}", call.op.name, y[1],
          to_string(call.in[2].shape));
  }
  return {TensorType{call.in[0].dtype, y}};
}

// Gradients are those of the convolution from the result to the operand.
struct Parts {
  Tensor dx, dw;
};
Parts parts(const GradCall& c, const op::ConvTranspose2dAttrs& a) {
  const Tensor& g = c.grads[0];
  return {c.needs(0) ? conv2d(g, c.in[1], {}, {a.stride, a.padding, a.dilation, a.groups, {}}) : Tensor(),
          c.needs(1)
              ? op::conv2d_backward_weight(c.in[0], g, {c.in[1].shape(), a.stride, a.padding, a.dilation, a.groups})
              : Tensor()};
}
Parts parts(const GradCall& c, const op::ConvTranspose3dAttrs& a) {
  const Tensor& g = c.grads[0];
  return {c.needs(0) ? conv3d(g, c.in[1], {}, {a.stride, a.padding, a.dilation, a.groups, {}}) : Tensor(),
          c.needs(1)
              ? op::conv3d_backward_weight(c.in[0], g, {c.in[1].shape(), a.stride, a.padding, a.dilation, a.groups})
              : Tensor()};
}
Tensor as_image(const Tensor& line) {
  const Shape& s = line.shape();
  return reshape(line, {s[0], s[1], 1, s[2]});
}
Parts parts(const GradCall& c, const op::ConvTranspose1dAttrs& a) {
  const Shape& w = c.in[1].shape();
  const op::Conv2dGradAttrs image{{w[0], w[1], 1, w[2]}, {1, a.stride}, {0, a.padding}, {1, a.dilation}, a.groups};
  return {
      c.needs(0) ? conv1d(c.grads[0], c.in[1], {}, {a.stride, a.padding, a.dilation, a.groups, {}}) : Tensor(),
      c.needs(1) ? reshape(op::conv2d_backward_weight(as_image(c.in[0]), as_image(c.grads[0]), image), w) : Tensor()};
}

template <class A>
TensorList grad_transpose(const GradCall& c) {
  Parts of = parts(c, c.attrs.as<A>());
  TensorList out{std::move(of.dx), std::move(of.dw)};
  if (c.in.size() == 3) {
    Shape axes{0};
    for (int i = 2; i < c.grads[0].rank(); ++i) axes.push_back(i);
    out.push_back(c.needs(2) ? sum(c.grads[0], {.axes = axes}) : Tensor());
  }
  return out;
}

template <class A>
OpCase make_case(const Shape& x, const Shape& w, const A& a, bool bias) {
  OpCase c{{{.shape = x}, {.shape = w}}, a};
  if (bias) c.in.push_back({.shape = {w[1] * a.groups}});
  return c;
}

std::vector<OpCase> cases_1d() {
  const auto make = make_case<op::ConvTranspose1dAttrs>;
  return {make({2, 1, 5}, {1, 3, 3}, {}, true),
          make({1, 2, 4}, {2, 2, 3}, {.stride = 2, .padding = 1, .output_padding = 1}, false),
          make({2, 4, 5}, {4, 2, 3}, {.padding = 1, .groups = 2}, true),
          make({1, 2, 6}, {2, 3, 2}, {.dilation = 3}, false),
          make({0, 2, 5}, {2, 3, 3}, {}, true),
          make({2, 3, 20}, {3, 2, 1}, {}, true),
          make({1, 3, 9}, {3, 4, 5}, {.stride = 3, .padding = 2, .output_padding = 2}, true),
          make({1, 3, 19}, {3, 1, 3}, {.padding = 1, .groups = 3}, true)};
}

std::vector<OpCase> cases_2d() {
  const auto make = make_case<op::ConvTranspose2dAttrs>;
  return {make({2, 1, 3, 4}, {1, 3, 3, 3}, {}, true),
          make({1, 2, 3, 4}, {2, 2, 3, 2}, {.stride = {2, 1}, .padding = {1, 0}, .output_padding = {1, 0}}, false),
          make({2, 4, 3, 3}, {4, 2, 3, 3}, {.padding = {2, 1}, .groups = 2}, true),
          make({1, 2, 3, 3}, {2, 3, 3, 2}, {.dilation = {2, 3}}, false),
          make({0, 2, 3, 3}, {2, 3, 3, 3}, {}, true),
          make({2, 3, 4, 4}, {3, 5, 1, 1}, {}, true),
          make({1, 3, 3, 4}, {3, 2, 5, 5}, {.stride = {3, 2}, .padding = {2, 2}, .output_padding = {2, 1}}, true),
          make({1, 3, 3, 18}, {3, 2, 3, 3}, {.padding = {1, 1}, .groups = 3}, true)};
}

std::vector<OpCase> cases_3d() {
  const auto make = make_case<op::ConvTranspose3dAttrs>;
  return {make({1, 1, 2, 3, 3}, {1, 2, 2, 3, 3}, {}, true),
          make({1, 2, 2, 3, 2}, {2, 2, 3, 2, 2},
               {.stride = {2, 1, 2}, .padding = {1, 0, 0}, .output_padding = {1, 0, 1}}, false),
          make({2, 4, 2, 2, 2}, {4, 1, 1, 3, 2}, {.padding = {0, 1, 0}, .groups = 2}, true),
          make({1, 1, 2, 2, 3}, {1, 2, 2, 2, 2}, {.dilation = {2, 3, 1}}, false),
          make({0, 2, 2, 2, 2}, {2, 3, 2, 2, 2}, {}, true),
          make({2, 3, 2, 2, 3}, {3, 4, 1, 1, 1}, {}, true),
          make({1, 1, 2, 2, 12}, {1, 2, 2, 2, 3}, {.stride = {1, 2, 1}, .padding = {1, 1, 1}}, true),
          make({1, 2, 2, 3, 3}, {2, 2, 3, 3, 3}, {.padding = {1, 1, 1}, .groups = 2}, true)};
}

// Every input is spread over its taps.
double flops_of_conv_transpose(const CostCall& call) {
  return 2 * costs::elements(call.in[0]) * costs::taps(call.in[1]) +
         (call.in.size() > 2 ? costs::elements(call.out[0]) : 0);
}

template <class A>
void add_transpose(OpRegistry& ops, const char* name, const char* doc, std::vector<OpCase> (*cases)()) {
  ops.add({.name = name,
           .doc = doc,
           .inputs = {"x", "weight", "bias?"},
           .attrs = &attr_type<A>(),
           .infer = infer_transpose<A>,
           .gradient = grad_transpose<A>,
           .shard = [](const ShardCall& call) { return rules::shard_batch(call, 1); },
           .cases = cases,
           .saves = kSavesInputs,
           .cost = {flops_of_conv_transpose},
           .precision = Width::narrow});
}

}  // namespace

void register_ops_conv_transpose(OpRegistry& ops) {
  add_transpose<op::ConvTranspose1dAttrs>(ops, "conv_transpose1d", "Transposed convolution of [n, c, l], with bias.",
                                          cases_1d);
  add_transpose<op::ConvTranspose2dAttrs>(ops, "conv_transpose2d", "Transposed convolution of [n, c, h, w], with bias.",
                                          cases_2d);
  add_transpose<op::ConvTranspose3dAttrs>(ops, "conv_transpose3d",
                                          "Transposed convolution of [n, c, d, h, w], with bias.", cases_3d);
}

}  // namespace starling
