#pragma once

#include "starling/ops/reduce.h"

namespace starling {

// Where the largest or smallest value is, i64: along the one axis named, or in the flattened tensor when none is. The
// first of equal values; a NaN wins. Refuses an empty axis. Not differentiable.
Tensor argmax(const Tensor& x, const ReduceAttrs& attrs = {});
Tensor argmin(const Tensor& x, const ReduceAttrs& attrs = {});

}  // namespace starling
