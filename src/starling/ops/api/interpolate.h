#pragma once

#include "starling/ops/def/attrs/interpolate.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Resizes images [n, c, h, w]. Nearest takes pixel ⌊i · distance⌋; bilinear mixes the two or four pixels around (i +
// 1/2) · distance - 1/2, clamped to the border.
Tensor interpolate(const Tensor& x, const op::InterpolateAttrs& attrs);

}  // namespace starling
