#pragma once

#include <cuda_runtime.h>

#include "starling/kernels/cuda/device/attention.h"
#include "starling/kernels/cuda/device/real.h"

// Attention of 16-bit floats on tensor cores without scores in memory: sums in f32, the same order every time. Operands
// and results are described by Attention, lse and its gradient are dense; there is no mask but the causal one. Rows of
// results begin at multiples of 4 bytes.
namespace starling::device {

bool takes_flash(const Attention& attention);

struct FlashForward {
  const void *q, *k, *v;
  void* y;
  RealsOut lse;
};

// `delta` holds batch · queries floats.
struct FlashBackward {
  const void *q, *k, *v, *y, *dy;
  Reals lse, dlse;
  float* delta;
  void *dq, *dk, *dv;
};

cudaError_t load_flash(Real kind, int d);
cudaError_t launch_flash(const Attention& attention, Real kind, const FlashForward& f, cudaStream_t stream);
cudaError_t launch_flash_backward(const Attention& attention, Real kind, const FlashBackward& b, cudaStream_t stream);

}  // namespace starling::device
