#pragma once

#include "starling/tensor/tensor.h"

namespace starling::train {

// True if a contiguous CPU tensor holds no infinity and no NaN; always true for integers.
bool all_finite(const Tensor& tensor);

}  // namespace starling::train
