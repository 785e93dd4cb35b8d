#pragma once

#include "starling/tensor/shape.h"

namespace starling::python {

// Elements in memory: the address of the first, and strides in elements, which may be zero or negative.
struct Elements {
  void* first;
  Shape strides;
};

// Copies elements of one size and shape one by one, in row-major order. They must not overlap.
void copy_elements(const Shape& shape, std::size_t size, const Elements& from, const Elements& to);

}  // namespace starling::python
