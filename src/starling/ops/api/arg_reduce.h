#pragma once

#include "starling/ops/api/reduce.h"

namespace starling {

// Index (i64) of the largest or smallest value: along the one given axis, or in the flattened tensor without one. The
// first of equal values; a NaN wins. Refuses an empty axis. Not differentiable.
Tensor argmax(const Tensor& x, const op::ReduceAttrs& attrs = {});
Tensor argmin(const Tensor& x, const op::ReduceAttrs& attrs = {});

}  // namespace starling
