#pragma once

#include "starling/ops/def/attrs/rotary.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Rotary position embedding of x [.., t, d], d even: pair i of row p is rotated by (offset + p) · base^(-2i/d).
Tensor rotary(const Tensor& x, const op::RotaryAttrs& attrs = {});

}  // namespace starling
