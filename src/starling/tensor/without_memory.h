#pragma once

#include "starling/tensor/tensor.h"

namespace starling {

// Tensor of a type and device without memory: every rank stores a piece of it elsewhere.
inline Tensor without_memory(const TensorType& type, Device device = kCpu) {
  Ref<TensorImpl> impl = new TensorImpl;
  impl->dtype = type.dtype;
  impl->shape = type.shape;
  impl->strides = contiguous_strides(impl->shape);
  impl->device = device;
  return Tensor(std::move(impl));
}

}  // namespace starling
