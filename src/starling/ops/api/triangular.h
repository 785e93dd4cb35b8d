#pragma once

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct TriangularAttrs {
  std::int64_t diagonal = 0;  // diagonals above the main one; negative: below
  static AttrFields fields() { return {field("diagonal", &TriangularAttrs::diagonal)}; }
};

// Lower (tril) or upper (triu) triangle of the last two axes, including the given diagonal; zeros elsewhere.
Tensor tril(const Tensor& x, std::int64_t diagonal = 0);
Tensor triu(const Tensor& x, std::int64_t diagonal = 0);

}  // namespace starling
