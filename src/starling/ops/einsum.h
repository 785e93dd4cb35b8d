#pragma once

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "starling/ops/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct EinsumAttrs {
  Symbol equation{};
  static AttrFields fields() { return {field("equation", &EinsumAttrs::equation)}; }
};

// Sums of products named by the letters of dimensions: einsum("bij,bjk->bik", {a, b}).
//   - One term an operand, separated by commas; a letter has one size everywhere; spaces mean nothing.
//   - Letters that the result does not name are summed over. A letter twice in a term walks the diagonal.
//   - Without "->" the result has the letters that occur once, in alphabetical order.
//   - "..." stands for further dimensions, which broadcast; those come first in a result that is not written out, and
//   are
//     summed over when a written result leaves them out.
//   - A letter twice in the result fills a diagonal; the rest is zero.
// Floats of one dtype.
Tensor einsum(std::string_view equation, std::span<const Tensor> xs);
Tensor einsum(std::string_view equation, std::initializer_list<Tensor> xs);

// An equation read for operands of given shapes: every dimension has a label in [0, sizes.size()). Dimensions that
// "..." stretches have size 1 where their label's size is greater.
struct EinsumLabels {
  std::vector<std::vector<int>> in;
  std::vector<int> out;
  std::vector<std::int64_t> sizes;
  Shape out_shape() const;
};
EinsumLabels read_equation(const std::string& equation, std::span<const Shape> shapes);

// Strides of an operand by label: a label that occurs twice moves along both, one that is missing or stretched stays.
std::vector<std::int64_t> label_strides(const std::vector<int>& labels, const Shape& shape, const Shape& strides,
                                        std::span<const std::int64_t> sizes);

}  // namespace starling
