#pragma once

#include "starling/tensor/tensor.h"

namespace starling {

// To whole numbers, in the same dtype; integers stay as they are. Not differentiable.
Tensor floor(const Tensor& x);
Tensor ceil(const Tensor& x);
Tensor round(const Tensor& x);  // halves to even
Tensor trunc(const Tensor& x);

}  // namespace starling
