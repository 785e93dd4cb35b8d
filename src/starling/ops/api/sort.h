#pragma once

#include "starling/ops/def/attrs/sort.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct Sorted {
  Tensor values;
  Tensor indices;  // i64: values[i] = x[indices[i]] along the axis
};
struct Unique {
  Tensor values;   // sorted
  Tensor inverse;  // i64, of x's shape: index of each element's value
  Tensor counts;   // i64: occurrences of each value
};

// Stable: equal values keep their order, and topk prefers the first of equal candidates. NaN is greater than any
// number.
Sorted sort(const Tensor& x, const op::SortAttrs& attrs = {});
Tensor argsort(const Tensor& x, const op::SortAttrs& attrs = {});
Sorted topk(const Tensor& x, const op::TopkAttrs& attrs);

// Distinct values of a tensor; all NaN count as one. Eager only: the sizes depend on values.
Unique unique(const Tensor& x, SourceLocation where = SourceLocation::current());

}  // namespace starling
