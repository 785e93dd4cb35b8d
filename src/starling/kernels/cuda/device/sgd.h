#pragma once

#include <cuda_runtime.h>

#include "starling/kernels/cuda/device/real.h"

namespace starling::device {

// SGD update: g' = g + decay · w; v' = momentum · v + g'; w' = w - lr · (nesterov ? g' + momentum · v' : v'). New
// values may overwrite old.
struct SgdTensor {
  const float* w;
  const float* v;
  const void* g;
  float* w_out;
  float* v_out;
  long long n;
  Real gradient = Real::f32;  // kind of g
};

// Many tensors in one launch: the table is a kernel argument, so that a recorded CUDA graph holds it too.
struct SgdMany {
  static constexpr int kMost = 64;
  SgdTensor tensors[kMost];
  int first_block[kMost];  // first block of each tensor
  int count;
  const float* lr;
  float momentum, decay;
  bool nesterov;
};

cudaError_t load_sgd();
// Launches the update; fills first_block.
cudaError_t launch_sgd(SgdMany& many, cudaStream_t stream);

}  // namespace starling::device
