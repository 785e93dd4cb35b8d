#pragma once

#include <limits>

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

// a if the condition holds, else b; all three broadcast.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);

struct ClampAttrs {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  static AttrFields fields() { return {field("min", &ClampAttrs::min), field("max", &ClampAttrs::max)}; }
};
// x limited to [min, max]; NaN stays. Integers take whole bounds only. clamp(x, {.min = 0})
Tensor clamp(const Tensor& x, const ClampAttrs& bounds);
inline Tensor clamp(const Tensor& x, double min, double max) { return clamp(x, ClampAttrs{min, max}); }
// dy if x lies within the bounds, else 0.
Tensor clamp_backward(const Tensor& dy, const Tensor& x, const ClampAttrs& bounds);

// a + weight · (b - a), exact at weights 0 and 1; floats; all three broadcast.
Tensor lerp(const Tensor& a, const Tensor& b, const Tensor& weight);
Tensor lerp(const Tensor& a, const Tensor& b, double weight);

}  // namespace starling
