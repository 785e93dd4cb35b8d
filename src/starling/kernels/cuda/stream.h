#pragma once

#include "starling/kernels/kernel.h"
#include "starling/tensor/cuda/cuda_error.h"

namespace starling::cuda {

// Stream that a kernel must use; the default one for eager calls.
inline cudaStream_t stream_of(const kernels::Launch& launch) {
  return static_cast<cudaStream_t>(launch.context.stream);
}

template <class T>
const T* input(const kernels::Launch& launch, std::size_t i) {
  return static_cast<const T*>(launch.in[i]);
}
template <class T>
T* output(const kernels::Launch& launch, std::size_t i) {
  return static_cast<T*>(launch.out[i]);
}

inline bool all_f32(std::span<const kernels::ArgDesc> args) {
  for (const auto& arg : args) {
    if (arg.dtype != DType::f32) return false;
  }
  return true;
}

}  // namespace starling::cuda
