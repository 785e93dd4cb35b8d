#pragma once

#include <nanobind/nanobind.h>

#include "dlpack.h"
#include "starling/tensor/tensor.h"

namespace starling::python {

namespace nb = nanobind;

// A tensor of an array's elements: NumPy's, anything with DLPack or a buffer. A tensor that shares the array's memory
// keeps the array alive; byte order, negative strides and odd addresses do not allow it. Arrays that may not be written
// give tensors that may not be written.
Tensor array_tensor(nb::handle array, Sharing sharing);

bool holds_tensors(nb::handle list, int depth = 0);  // lists of tensors, as opposed to lists of numbers
Tensor stacked(nb::handle list);                     // along a new first axis

}  // namespace starling::python
