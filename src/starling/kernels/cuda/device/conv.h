#pragma once

#include <cuda_runtime.h>

#include "starling/kernels/cuda/device/gemm.h"

namespace starling::device {

// Convolution of x [n, c, x...] with w [o, c / groups, k...] to y [n, o, y...], in three dimensions.
struct Conv {
  int n, c, o, groups;
  int x[3], k[3], y[3];
  int stride[3], padding[3], dilation[3];
};

// Kernels that take every convolution, one thread or block per result; sums in f32.
cudaError_t load_conv();
cudaError_t launch_conv_forward(const Conv& conv, const float* x, const float* w, const float* bias,
                                Activation activation, float* y, cudaStream_t stream);
// With a bias [c], which is added to every position: a transposed convolution.
cudaError_t launch_conv_input(const Conv& conv, const float* dy, const float* w, const float* bias, float* dx,
                              cudaStream_t stream);
cudaError_t launch_conv_weight(const Conv& conv, const float* dy, const float* x, float* dw, cudaStream_t stream);

}  // namespace starling::device
