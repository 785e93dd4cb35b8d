#pragma once

#include "starling/ops/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct TriangularAttrs {
  std::int64_t diagonal = 0;  // above the main one, below it when negative
  static AttrFields fields() { return {field("diagonal", &TriangularAttrs::diagonal)}; }
};

// Of the last two axes: what lies on and below (tril) or on and above (triu) a diagonal; zeros elsewhere.
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);

}  // namespace starling
