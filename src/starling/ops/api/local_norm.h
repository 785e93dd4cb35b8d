#pragma once

#include "starling/ops/def/attrs/local_norm.h"
#include "starling/tensor/tensor.h"

namespace starling {

// x [n, c, …] divided by (k + alpha / size · Σ x²)^beta, the sum over the `size` channels around each one: from
// c - size / 2 to c + (size - 1) / 2, those that exist. AlexNet: size 5, alpha 5e-4 (1e-4 · size), beta 0.75, k 2.
Tensor local_response_norm(const Tensor& x, const op::LocalResponseNormAttrs& attrs = {});

// Subtractive, then divisive normalisation (Jarrett et al. 2009) of x [n, c, h, w]. With G the mean over all channels
// and a window of size × size pixels, weighted by a Gaussian whose weights inside the image are scaled to the sum 1:
//   v = x - G(x),  s = sqrt(G(v²) + epsilon),  y = v / max(s, mean of s over the image).
Tensor local_contrast_norm(const Tensor& x, const op::LocalContrastNormAttrs& attrs = {});

}  // namespace starling
