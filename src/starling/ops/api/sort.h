#pragma once

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct SortAttrs {
  std::int64_t axis = -1;
  bool descending = false;
  static AttrFields fields() { return {field("axis", &SortAttrs::axis), field("descending", &SortAttrs::descending)}; }
};
struct TopkAttrs {
  std::int64_t k = 1;
  std::int64_t axis = -1;
  bool largest = true;
  bool sorted = true;  // false: in the order of x
  static AttrFields fields() {
    return {field("k", &TopkAttrs::k), field("axis", &TopkAttrs::axis), field("largest", &TopkAttrs::largest),
            field("sorted", &TopkAttrs::sorted)};
  }
};

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
Sorted sort(const Tensor& x, const SortAttrs& attrs = {});
Tensor argsort(const Tensor& x, const SortAttrs& attrs = {});
Sorted topk(const Tensor& x, const TopkAttrs& attrs);

// Distinct values of a tensor; all NaN count as one. Eager only: the sizes depend on values.
Unique unique(const Tensor& x, SourceLocation where = SourceLocation::current());

}  // namespace starling
