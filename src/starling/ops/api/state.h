#pragma once

#include "starling/tensor/tensor.h"

namespace starling {

// Assigns a variable: in place now, or when the compiled program runs.
void assign(const Tensor& variable, const Tensor& value);

// Marks a tensor whose value may be baked into a trace; other captured tensors are read at every call.
Tensor constant(const Tensor& value);

}  // namespace starling
