#pragma once

#include <cstddef>
#include <span>

#include "starling/tensor/tensor.h"

namespace starling::train {

// True if values of this dtype in memory hold no infinity and no NaN; always true for integers.
bool all_finite(std::span<const std::byte> bytes, DType dtype);

// The same of a tensor with any strides on any device.
bool all_finite(const Tensor& tensor);

}  // namespace starling::train
