#include "dense.h"

#include "starling/base/error.h"
#include "strided.h"

namespace starling::python {

Tensor dense_copy(const Tensor& tensor) {
  if (tensor.contiguous()) return copied(tensor);
  check(tensor.device().kind == DeviceKind::cpu, "[tensor] expected memory in row-major order on {}, got strides {}",
        to_string(tensor.device()), to_string(tensor.strides()));
  const Tensor copy = empty(tensor.shape(), tensor.dtype());
  copy_elements(tensor.shape(), size_of(tensor.dtype()), {tensor.raw(), tensor.strides()},
                {copy.raw(), copy.strides()});
  return copy;
}

}  // namespace starling::python
