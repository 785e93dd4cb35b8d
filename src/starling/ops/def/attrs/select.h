#pragma once

#include <limits>

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling::op {

struct ClampAttrs {
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  static AttrFields fields() { return {field("min", &ClampAttrs::min), field("max", &ClampAttrs::max)}; }
};
// dy if x lies within the bounds, else 0.
Tensor clamp_backward(const Tensor& dy, const Tensor& x, const ClampAttrs& bounds);

}  // namespace starling::op
