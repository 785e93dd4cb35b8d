#pragma once

#include <cuda_runtime.h>

#include "starling/base/error.h"

namespace starling {

// Throws "[cuda] expected <what> to succeed, got <CUDA's message>".
inline void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) [[likely]]
    return;
  fail("[cuda] expected {} to succeed, got {} ({})", what, cudaGetErrorString(status), cudaGetErrorName(status));
}

}  // namespace starling
