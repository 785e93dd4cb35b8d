#pragma once

#include "starling/tensor/tensor.h"

namespace starling::nn {

// Moves a newly created tensor to the device of `like`. A traced value has no memory yet and is returned as it is: the
// graph decides its placement.
inline Tensor near(const Tensor& made, const Tensor& like) { return made.traced() ? made : to(made, like.device()); }

}  // namespace starling::nn
