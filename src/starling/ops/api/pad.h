#pragma once

#include "starling/ops/def/attrs/pad.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Pads x before and after along each axis. Reflection needs less padding than the size of the axis.
Tensor pad(const Tensor& x, const op::PadAttrs& attrs);

}  // namespace starling
