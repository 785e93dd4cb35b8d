#pragma once

#include "starling/ops/attrs.h"
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
  bool sorted = true;  // else they stay in the order they have in x
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
  Tensor inverse;  // i64, of x's shape: which value each element is
  Tensor counts;   // i64: how often each value occurs
};

// Always stable: equal values keep their order, and of equal candidates for the top k the first are taken. NaN is
// greater than any number.
Sorted sort(const Tensor& x, const SortAttrs& attrs = {});
Tensor argsort(const Tensor& x, const SortAttrs& attrs = {});
Sorted topk(const Tensor& x, const TopkAttrs& attrs);

// The different values of a tensor; all NaN count as one. Eager only: how many there are depends on values.
Unique unique(const Tensor& x, SourceLocation where = SourceLocation::current());

}  // namespace starling
