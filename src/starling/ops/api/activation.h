#pragma once

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

Tensor leaky_relu(const Tensor& x, double slope = 0.01);  // slope · x below 0

Tensor elu(const Tensor& x, double alpha = 1);  // alpha · (eˣ - 1) below 0

// weight · x below 0. The weight is one number, or one per channel: [C] for an x of [N, C, ...]; any other shape is
// broadcast with x.
Tensor prelu(const Tensor& x, const Tensor& weight);

}  // namespace starling
