#pragma once

#include <nanobind/nanobind.h>

#include "starling/tensor/tensor.h"

namespace starling::python {

namespace nb = nanobind;

// A tensor of an array's elements: NumPy's, anything with DLPack or a buffer. With `share` the tensor is the array's
// memory where strides and byte order allow it, and keeps the array alive; else a copy. Arrays that may not be written
// give tensors that may not be written.
Tensor array_tensor(nb::handle array, bool share);

bool holds_tensors(nb::handle list, int depth = 0);  // lists of tensors, as opposed to lists of numbers
Tensor stacked(nb::handle list);                     // along a new first axis

}  // namespace starling::python
