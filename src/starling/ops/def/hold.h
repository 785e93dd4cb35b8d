#pragma once

#include "starling/tensor/tensor.h"

namespace starling {

// Identity with a dependency: x, but not before `after` is computed. In a graph it delays what is computed from the
// result and keeps CSE from merging it with what was computed from x. Recomputed regions begin with it. `after` gets no
// gradient.
Tensor hold(const Tensor& x, const Tensor& after);

}  // namespace starling
