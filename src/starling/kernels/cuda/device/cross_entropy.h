#pragma once

#include <cuda_runtime.h>

#include "starling/kernels/cuda/device/real.h"

// Cross-entropy of logits of any kind of float, which are read once; probabilities are never in memory. A label out of
// range gives NaN, since device code cannot throw.
namespace starling::device {

struct CrossEntropyRows {
  Reals logits;  // [rows, classes]
  const long long* labels;
  const float* weights;  // [rows], or null: all 1
  long long rows;
  int classes;
};

// Log-sum-exp of each row, and weight · (lse - x[label]).
cudaError_t load_cross_entropy_rows();
cudaError_t launch_cross_entropy_rows(const CrossEntropyRows& p, float* lse, float* losses, cudaStream_t stream);

// (exp(x - lse) - onehot) · weight · scale; may overwrite the logits.
cudaError_t launch_cross_entropy_rows_backward(const CrossEntropyRows& p, const float* lse, const float* scale,
                                               RealsOut out, cudaStream_t stream);

}  // namespace starling::device
