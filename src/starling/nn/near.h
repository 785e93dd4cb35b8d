#pragma once

#include "starling/tensor/tensor.h"

namespace starling::nn {

// A tensor made of nothing where another one lies. In a trace values have no memory yet: the graph places them.
inline Tensor near(const Tensor& made, const Tensor& like) { return made.traced() ? made : to(made, like.device()); }

}  // namespace starling::nn
