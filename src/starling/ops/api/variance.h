#pragma once

#include "starling/ops/def/attrs/variance.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Σ (x - mean)² / (n - correction) of floats, from centred values: accurate for large means. NaN or infinite if n ≤
// correction.
Tensor var(const Tensor& x, const op::VarAttrs& attrs = {});
// Square root of var (the op "std"); the gradient is 0 where it is 0.
Tensor stddev(const Tensor& x, const op::VarAttrs& attrs = {});

}  // namespace starling
