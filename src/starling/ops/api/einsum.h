#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct EinsumAttrs {
  Symbol equation{};
  static AttrFields fields() { return {field("equation", &EinsumAttrs::equation)}; }
};

// Einstein summation: einsum("bij,bjk->bik", {a, b}).
//   - One term per operand, separated by commas; a letter has one size everywhere; spaces are ignored.
//   - Letters missing from the result are summed over. A letter twice in a term takes the diagonal.
//   - Without "->" the result has the letters that occur once, in alphabetical order.
//   - "..." stands for further dimensions, which broadcast; they come first in an implicit result, and are summed over
//     if an explicit result omits them.
//   - A letter twice in the result fills a diagonal; the rest is zero.
// Floats of one dtype.
Tensor einsum(std::string_view equation, std::span<const Tensor> xs);
Tensor einsum(std::string_view equation, std::initializer_list<Tensor> xs);

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

}  // namespace starling
