#pragma once

#include "starling/tensor/tensor.h"

namespace starling {

// Σ a · b over the last dimension: [.., n] and [.., n] → [..]. Floats of equal shapes.
Tensor dot(const Tensor& a, const Tensor& b);

// Outer product of a [m] and b [n] → [m, n].
Tensor outer(const Tensor& a, const Tensor& b);

}  // namespace starling
