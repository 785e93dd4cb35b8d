#pragma once

#include "starling/tensor/tensor.h"

namespace starling {

// True when a dense tensor on a CPU holds no infinity and no NaN; always for integers.
bool all_finite(const Tensor& tensor);

}  // namespace starling
