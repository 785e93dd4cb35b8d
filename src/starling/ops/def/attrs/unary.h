#pragma once

#include "starling/tensor/tensor.h"

namespace starling::op {

// dy · (1 - y²), with y the output of tanh.
Tensor tanh_backward(const Tensor& dy, const Tensor& y);

}  // namespace starling::op
