#pragma once

#include "starling/tensor/tensor.h"

namespace starling::python {

// x[key] = value of a value of a function being compiled: the Python object is a new value from then on. That is what
// writing into memory would do as long as no other object sees that memory, which is looked at: throws naming the
// reason otherwise, as for arguments and tensors from outside.
void expect_own_value(const Tensor& x);

}  // namespace starling::python
