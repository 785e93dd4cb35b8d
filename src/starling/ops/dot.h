#pragma once

#include "starling/tensor/tensor.h"

namespace starling {

// Σ a · b over the last dimension: [.., n] and [.., n] → [..]. Floats, shapes alike.
Tensor dot(const Tensor& a, const Tensor& b);

// Every product of an element of a [m] and one of b [n] → [m, n].
Tensor outer(const Tensor& a, const Tensor& b);

}  // namespace starling
