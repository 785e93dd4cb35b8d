#pragma once

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling::op {

struct LeakyReluAttrs {
  double slope = 0.01;
  static AttrFields fields() { return {field("slope", &LeakyReluAttrs::slope)}; }
};

struct EluAttrs {
  double alpha = 1;
  static AttrFields fields() { return {field("alpha", &EluAttrs::alpha)}; }
};

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

}  // namespace starling::op
