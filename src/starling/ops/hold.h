#pragma once

#include "starling/tensor/tensor.h"

namespace starling {

// x itself, but not before `after` is there: in a graph, what is computed from the result is computed late, and is not
// the same as what was computed from x before. Recomputed regions begin with it. `after` gets no gradient.
Tensor hold(const Tensor& x, const Tensor& after);

}  // namespace starling
