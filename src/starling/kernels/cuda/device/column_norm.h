#pragma once

#include <cuda_runtime.h>

#include "starling/kernels/cuda/device/real.h"

// Batch norm of images whose channels are last in memory: x [rows, channels], channels a multiple of 8, floats of any
// kind; statistics and weights are f32.
namespace starling::device {

struct ColumnNorm {
  long long rows;
  int channels;
  float eps;
};

bool takes_columns(long long rows, long long channels);
// Floats of scratch for every launch below.
long long column_norm_scratch(const ColumnNorm& norm);

struct ColumnNormForward {
  Reals x;
  const float* weight;  // or null
  const float* bias;    // or null
  Reals residual;       // added to the result; or null
  bool relu;            // applied last
  RealsOut y;
  float* mean;
  float* var;
};

struct ColumnNormBackward {
  Reals dy;
  Reals y;            // results of a relu, whose gradient dy gets first; or null
  const float* bias;  // to make y again, which is not read then; or null
  Reals x;
  const float* mean;
  const float* var;
  const float* weight;  // or null
  RealsOut dx;
  float* dweight;  // or null, as dbias
  float* dbias;
};

cudaError_t load_column_norm();
cudaError_t launch_column_norm(const ColumnNorm& norm, const ColumnNormForward& f, float* scratch, cudaStream_t stream);
cudaError_t launch_column_norm_backward(const ColumnNorm& norm, const ColumnNormBackward& b, float* scratch,
                                        cudaStream_t stream);

// Σ over the rows of x [rows, channels], times `scale`; channels a multiple of 8. `scratch` as above.
cudaError_t launch_column_sum(const ColumnNorm& shape, Reals x, RealsOut sum, float scale, float* scratch,
                              cudaStream_t stream);

}  // namespace starling::device
