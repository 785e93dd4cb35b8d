#include "dense.h"

#include <cstring>

#include "starling/base/error.h"

namespace starling::python {
namespace {

void copy_rows(const std::byte* from, const Shape& shape, const Shape& strides, int axis, std::size_t size,
               std::byte*& to) {
  if (axis == shape.rank()) {
    std::memcpy(to, from, size);
    to += size;
    return;
  }
  for (std::int64_t i = 0; i < shape[axis]; ++i)
    copy_rows(from + i * strides[axis] * static_cast<std::int64_t>(size), shape, strides, axis + 1, size, to);
}

}  // namespace

Tensor dense_copy(const Tensor& tensor) {
  if (tensor.contiguous()) return copied(tensor);
  check(tensor.device().kind == DeviceKind::cpu, "[tensor] expected memory in row-major order on {}, got strides {}",
        to_string(tensor.device()), to_string(tensor.strides()));
  Tensor copy = empty(tensor.shape(), tensor.dtype());
  auto* to = static_cast<std::byte*>(copy.raw());
  if (tensor.numel() > 0)
    copy_rows(static_cast<const std::byte*>(tensor.raw()), tensor.shape(), tensor.strides(), 0, size_of(tensor.dtype()),
              to);
  return copy;
}

}  // namespace starling::python
