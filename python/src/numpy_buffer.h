#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "dlpack.h"
#include "starling/tensor/tensor.h"

namespace starling::python {

namespace nb = nanobind;

// A tensor of a NumPy array as most are: numbers in native order at aligned addresses, strides that are not negative.
// Others, subclasses and what is no array of NumPy give none: array_tensor() goes a longer way. As there, what shares
// the memory keeps the array.
std::optional<Tensor> numpy_buffer_tensor(nb::handle array, Sharing sharing);

}  // namespace starling::python
