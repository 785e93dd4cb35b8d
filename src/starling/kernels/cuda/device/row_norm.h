#pragma once

#include <cuda_runtime.h>

#include "starling/kernels/cuda/device/real.h"

// Layer and RMS norm of rows x [rows, width], floats of any kind; statistics, weights and their gradients are f32. A
// warp holds a row in registers: memory is read once.
namespace starling::device {

struct RowNorm {
  long long rows;
  int width;
  float eps;
  bool centred;  // false: RMS, whose mean is 0
};

bool takes_rows(const RowNorm& norm);

struct RowNormForward {
  Reals x;
  const float* weight;  // or null
  const float* bias;    // or null
  RealsOut y;
  float* mean;  // null for RMS
  float* var;
};

struct RowNormBackward {
  Reals dy;
  Reals x;
  const float* mean;  // null for RMS
  const float* var;
  const float* weight;  // or null
  RealsOut dx;
  float* dweight;  // or null, as dbias
  float* dbias;
};

cudaError_t load_row_norm();
cudaError_t launch_row_norm(const RowNorm& norm, const RowNormForward& f, cudaStream_t stream);
// `scratch` holds row_norm_scratch(…) floats.
long long row_norm_scratch(const RowNorm& norm);
cudaError_t launch_row_norm_backward(const RowNorm& norm, const RowNormBackward& b, float* scratch,
                                     cudaStream_t stream);

}  // namespace starling::device
