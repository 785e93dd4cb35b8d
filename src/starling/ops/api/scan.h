#pragma once

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct ScanAttrs {
  std::int64_t axis = -1;
  bool exclusive = false;  // excludes the element itself: the first result is 0, or 1 for products
  bool reverse = false;    // from the end
  static AttrFields fields() {
    return {field("axis", &ScanAttrs::axis), field("exclusive", &ScanAttrs::exclusive),
            field("reverse", &ScanAttrs::reverse)};
  }
};

// Cumulative sums and products along an axis; integers and booleans give i64 and wrap. The gradient of a product does
// not divide, so it is correct at zero factors.
Tensor cumsum(const Tensor& x, const ScanAttrs& attrs = {});
Tensor cumprod(const Tensor& x, const ScanAttrs& attrs = {});

struct RecurrenceAttrs {
  std::int64_t axis = -1;
  bool reverse = false;
  static AttrFields fields() {
    return {field("axis", &RecurrenceAttrs::axis), field("reverse", &RecurrenceAttrs::reverse)};
  }
};
// Linear recurrence y[t] = a[t] · y[t - 1] + b[t] along an axis, from 0 (in reverse y[t + 1], from the end).
Tensor linear_recurrence(const Tensor& a, const Tensor& b, const RecurrenceAttrs& attrs = {});

}  // namespace starling
