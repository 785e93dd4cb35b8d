#pragma once

#include <cuda_runtime.h>

namespace starling::device {

// g' = g + decay · w; v' = momentum · v + g'; w' = w - lr · (nesterov ? g' + momentum · v' : v'). New values may
// overwrite old.
struct SgdTensor {
  const float* w;
  const float* v;
  const float* g;
  float* w_out;
  float* v_out;
  long long n;
};

// Many tensors in one launch: the table travels with the launch, so that recordings hold it too.
struct SgdMany {
  static constexpr int kMost = 64;
  SgdTensor tensors[kMost];
  int first_block[kMost];  // of each tensor
  int count;
  const float* lr;
  float momentum, decay;
  bool nesterov;
};

cudaError_t load_sgd();
// Fills first_block.
cudaError_t launch_sgd(SgdMany& many, cudaStream_t stream);

}  // namespace starling::device
