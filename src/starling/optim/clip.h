#pragma once

#include <vector>

#include "starling/tensor/tensor.h"

namespace starling::optim {

// Gradient clipping between backward() and step(), eager or inside compile(): nothing is read on the host. Parameters
// without a gradient are skipped. A row-sparse gradient stays row-sparse where it is only scaled.

// Clamps every element of the gradients to [-limit, limit].
void clip_gradients(const std::vector<Tensor>& parameters, double limit);

// Scales all gradients by one factor, so that their joint norm is at most `most`; returns the norm before, f32[] or
// f64[]. p: 2, any other power, or infinity for the largest element. A norm that is not finite leaves gradients that
// are not finite either: see LossScaler for skipping such a step. In a compiled step the update applies the factor.
Tensor clip_gradient_norm(const std::vector<Tensor>& parameters, double most, double p = 2);
Tensor gradient_norm(const std::vector<Tensor>& parameters, double p = 2);

// gradient · factor, row-sparse or dense.
Tensor scaled_gradient(const Tensor& gradient, const Tensor& factor);

}  // namespace starling::optim
