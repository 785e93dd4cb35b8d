#pragma once

#include "starling/ops/def/attrs/scan.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Cumulative sums and products along an axis; integers and booleans give i64 and wrap. The gradient of a product does
// not divide, so it is correct at zero factors.
Tensor cumsum(const Tensor& x, const op::ScanAttrs& attrs = {});
Tensor cumprod(const Tensor& x, const op::ScanAttrs& attrs = {});

// Linear recurrence y[t] = a[t] · y[t - 1] + b[t] along an axis, from 0 (in reverse y[t + 1], from the end).
Tensor linear_recurrence(const Tensor& a, const Tensor& b, const op::RecurrenceAttrs& attrs = {});

}  // namespace starling
