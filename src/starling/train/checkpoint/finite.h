#pragma once

#include <cstddef>
#include <span>

#include "starling/tensor/tensor.h"

namespace starling::train {

// True if values of this dtype in memory hold no infinity and no NaN; always true for integers.
bool all_finite(std::span<const std::byte> bytes, DType dtype);

// True if a tensor holds no infinity and no NaN; it may have any strides and lie on any device.
bool all_finite(const Tensor& tensor);

}  // namespace starling::train
