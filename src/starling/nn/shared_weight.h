#pragma once

#include <string_view>

#include "starling/tensor/tensor.h"

namespace starling::nn {

// Puts a parameter of another module in the place of `own`, a layer's: both modules then train it, and it keeps its
// name, and stays frozen where it is. Throws ArgumentError for another shape or dtype, Error for what an op has made
// and for tensors that are no parameters; `layer` begins the message.
void share_weight(Tensor& own, const Tensor& parameter, std::string_view layer);

}  // namespace starling::nn
