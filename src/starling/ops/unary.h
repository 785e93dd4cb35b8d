#pragma once

#include "starling/tensor/tensor.h"

namespace starling {

// One number in, one number out, element by element.
Tensor neg(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor tanh(const Tensor& x);
Tensor sigmoid(const Tensor& x);
Tensor relu(const Tensor& x);
Tensor softplus(const Tensor& x);  // log(1 + eˣ), without overflow

// Their gradients from the saved output, as ops of their own.
Tensor tanh_backward(const Tensor& dy, const Tensor& y);
Tensor sigmoid_backward(const Tensor& dy, const Tensor& y);
Tensor relu_backward(const Tensor& dy, const Tensor& y);

inline Tensor operator-(const Tensor& x) { return neg(x); }

}  // namespace starling
