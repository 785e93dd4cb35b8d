#pragma once

#include "starling/ops/def/attrs/select.h"
#include "starling/tensor/tensor.h"

namespace starling {

// a if the condition holds, else b; all three broadcast.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

// x limited to [min, max]; NaN stays. Integers take whole bounds only. clamp(x, {.min = 0})
Tensor clamp(const Tensor& x, const op::ClampAttrs& bounds);
inline Tensor clamp(const Tensor& x, double min, double max) { return clamp(x, op::ClampAttrs{min, max}); }

// a + weight · (b - a), exact at weights 0 and 1; floats; all three broadcast.
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);
Tensor lerp(const Tensor& a, const Tensor& b, double weight);

}  // namespace starling
