#pragma once

#include "starling/tensor/tensor.h"

namespace starling::python {

// The values in row-major order, in memory of their own, without history.
Tensor dense_copy(const Tensor& tensor);
// The tensor itself if its memory is in row-major order already.
inline Tensor dense(const Tensor& tensor) { return tensor.contiguous() ? tensor : dense_copy(tensor); }

}  // namespace starling::python
