#pragma once

#include "starling/tensor/tensor.h"

namespace starling {

// Rounding to whole numbers, keeping the dtype; integers are unchanged. Not differentiable.
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor round(const Tensor& x);  // halves to even
Tensor trunc(const Tensor& x);

}  // namespace starling
