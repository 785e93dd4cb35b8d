#pragma once

#include <cstdint>

#include "starling/tensor/shape.h"

namespace starling {

// Elements of a row of a table: the product of all sizes but the first.
inline std::int64_t row_size(const Shape& shape) {
  std::int64_t size = 1;
  for (int i = 1; i < shape.rank(); ++i) size *= shape[i];
  return size;
}

// Sizes of a stack of matrices: all but the last two.
inline Shape stack_sizes(Shape shape) {
  shape.erase(shape.rank() - 1);
  shape.erase(shape.rank() - 1);
  return shape;
}

}  // namespace starling
