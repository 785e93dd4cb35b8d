#pragma once

#include <cuda_runtime.h>

namespace starling::device {

// Locally connected convolution of x [n, c, h, w] with weights [oh · ow, out, c · kh · kw], in tf32. Every kernel reads
// or writes each weight once for up to 64 samples.
struct LocalConv {
  int n, c, h, w;
  int out, oh, ow;
  int kh, kw, stride_h, stride_w, top, left, step_h, step_w;  // top and left: padding; step: dilation

  __host__ __device__ int taps() const { return c * kh * kw; }
  __host__ __device__ int positions() const { return oh * ow; }
  __host__ __device__ long long pixels() const { return static_cast<long long>(c) * h * w; }
};

// False where shared memory cannot hold a position's windows.
bool local_conv_fits(const LocalConv& conv);
// Bytes of scratch: a copy of x, or of its gradient, with the samples last.
unsigned long long local_conv_scratch(const LocalConv& conv);
cudaError_t load_local_conv();
cudaError_t launch_local_conv(const LocalConv& conv, const float* x, const float* weight, const float* bias, float* y,
                              void* scratch, cudaStream_t stream);
// The sums of a pixel are added in no fixed order.
cudaError_t launch_local_conv_input(const LocalConv& conv, const float* dy, const float* weight, float* dx,
                                    void* scratch, cudaStream_t stream);
cudaError_t launch_local_conv_weight(const LocalConv& conv, const float* dy, const float* x, float* dweight,
                                     void* scratch, cudaStream_t stream);

}  // namespace starling::device
