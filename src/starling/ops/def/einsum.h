#pragma once

#include <span>
#include <string>
#include <vector>

#include "starling/ops/def/attrs.h"

namespace starling::op {

struct EinsumAttrs {
  Symbol equation{};
  static AttrFields fields() { return {field("equation", &EinsumAttrs::equation)}; }
};

// Equation parsed for operands of given shapes: every dimension has a label in [0, sizes.size()). Dimensions that "..."
// broadcasts have size 1 where their label's size is greater.
struct EinsumLabels {
  std::vector<std::vector<int>> in;
  std::vector<int> out;
  std::vector<std::int64_t> sizes;
  Shape out_shape() const;
};
EinsumLabels read_equation(const std::string& equation, std::span<const Shape> shapes);

// Strides of an operand by label: a repeated label has the sum of its strides, a missing or broadcast one has 0.
std::vector<std::int64_t> label_strides(const std::vector<int>& labels, const Shape& shape, const Shape& strides,
                                        std::span<const std::int64_t> sizes);

}  // namespace starling::op
