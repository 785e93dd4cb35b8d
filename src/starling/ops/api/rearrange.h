#pragma once

#include "starling/tensor/tensor.h"

namespace starling {

Tensor tile(const Tensor& x, const Shape& reps);                               // repeats the whole tensor
Tensor repeat(const Tensor& x, std::int64_t repeats, std::int64_t axis = -1);  // repeats each element
Tensor flip(const Tensor& x, const Shape& axes);                               // reverses axes
Tensor roll(const Tensor& x, const Shape& shifts, const Shape& axes);          // element i goes to i + shift, cyclic

}  // namespace starling
