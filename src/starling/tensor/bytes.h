#pragma once

#include <cstddef>
#include <span>

#include "starling/tensor/tensor.h"

namespace starling {

// Bytes of the elements, without what strides leave between them.
inline std::size_t bytes_of(const Shape& shape, DType dtype) {
  return static_cast<std::size_t>(shape.numel()) * size_of(dtype);
}
inline std::size_t bytes_of(const TensorType& type) { return bytes_of(type.shape, type.dtype); }
inline std::size_t bytes_of(const Tensor& tensor) { return bytes_of(tensor.shape(), tensor.dtype()); }
inline std::size_t bytes_of(std::span<const TensorType> types) {
  std::size_t bytes = 0;
  for (const auto& type : types) bytes += bytes_of(type);
  return bytes;
}

}  // namespace starling
