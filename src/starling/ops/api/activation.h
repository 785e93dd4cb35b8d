#pragma once

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Elementwise activations, on floats.
Tensor sigmoid(const Tensor& x);
Tensor relu(const Tensor& x);
Tensor gelu(const Tensor& x);       // x · Φ(x), Φ: the normal CDF
Tensor gelu_tanh(const Tensor& x);  // gelu with Φ approximated by a tanh
Tensor silu(const Tensor& x);       // x · sigmoid(x)
Tensor softplus(const Tensor& x);   // log(1 + eˣ), without overflow
Tensor mish(const Tensor& x);       // x · tanh(softplus(x))
Tensor hardswish(const Tensor& x);  // x · clamp(x + 3, 0, 6) / 6
Tensor selu(const Tensor& x);       // scale · elu(x, alpha), both chosen to keep the variance at 1

struct LeakyReluAttrs {
  double slope = 0.01;
  static AttrFields fields() { return {field("slope", &LeakyReluAttrs::slope)}; }
};
Tensor leaky_relu(const Tensor& x, double slope = 0.01);  // slope · x below 0

struct EluAttrs {
  double alpha = 1;
  static AttrFields fields() { return {field("alpha", &EluAttrs::alpha)}; }
};
Tensor elu(const Tensor& x, double alpha = 1);  // alpha · (eˣ - 1) below 0

// weight · x below 0. The weight is one number, or one per channel: [C] for an x of [N, C, ...]; any other shape is
// broadcast with x.
Tensor prelu(const Tensor& x, const Tensor& weight);

// Backward ops: dy times the slope at x or, where it suffices, from the output y.
Tensor sigmoid_backward(const Tensor& dy, const Tensor& y);
Tensor relu_backward(const Tensor& dy, const Tensor& y);
Tensor leaky_relu_backward(const Tensor& dy, const Tensor& x, double slope);
Tensor elu_backward(const Tensor& dy, const Tensor& x, double alpha);
Tensor selu_backward(const Tensor& dy, const Tensor& x);
Tensor gelu_backward(const Tensor& dy, const Tensor& x);
Tensor gelu_tanh_backward(const Tensor& dy, const Tensor& x);
Tensor silu_backward(const Tensor& dy, const Tensor& x);
Tensor softplus_backward(const Tensor& dy, const Tensor& x);
Tensor mish_backward(const Tensor& dy, const Tensor& x);
Tensor hardswish_backward(const Tensor& dy, const Tensor& x);
Tensor prelu_backward(const Tensor& dy, const Tensor& x, const Tensor& weight);  // gradient of x

}  // namespace starling
