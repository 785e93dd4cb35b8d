#pragma once

#include "starling/tensor/tensor.h"

namespace starling {

// Softmax, along the last axis by default.
Tensor softmax(const Tensor& x, std::int64_t axis = -1);
Tensor log_softmax(const Tensor& x, std::int64_t axis = -1);

}  // namespace starling
