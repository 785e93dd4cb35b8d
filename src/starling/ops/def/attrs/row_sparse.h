#pragma once

#include "starling/ops/def/attrs/state.h"
#include "starling/tensor/tensor.h"

namespace starling::op {

// a + b. Two row-sparse tensors give a row-sparse one: the entries of both, coalesced when they are many; but dense
// while tracing, and where that would not be larger. Otherwise dense.
Tensor add_gradients(const Tensor& a, const Tensor& b);

// sgd_update of the rows that occur, with their summed values as gradients: (w, v, rows, values, lr) → (w', v'). Other
// rows keep weight and velocity: momentum and weight decay are lazy.
void sgd_update_rows(const Tensor& w, const Tensor& v, const Tensor& rows, const Tensor& values, const Tensor& lr,
                     const SgdAttrs& attrs);

}  // namespace starling::op
