#pragma once

#include <initializer_list>
#include <span>
#include <string_view>

#include "starling/tensor/tensor.h"

namespace starling {

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

}  // namespace starling
