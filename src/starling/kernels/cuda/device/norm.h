#pragma once

#include <cuda_runtime.h>

namespace starling::device {

// Normalisation in the common form of ops/def/norm_view.h. Statistic s is over `outer` segments of `length` neighbours:
// element (o, j) of it lies at s · step + o · outer_step + j and has weight s % groups · group_weights + j / inside.
struct Norm {
  long long stats;
  int outer, length;
  long long step, outer_step;
  int groups, group_weights, inside;
  float eps;
  bool centred;  // false: RMS, whose mean is 0
  bool fixed;    // backward: statistics do not depend on x
  int pieces;    // of one statistic, each summed by one block
};

// Number of pieces that fill the device.
int norm_pieces(const Norm& norm);

struct NormForward {
  const float* x;
  const float* weight;    // or null
  const float* bias;      // or null
  const float* residual;  // added to the result, or null
  bool relu;              // applied last
  float* y;
  float* mean;  // null for RMS
  float* var;
};

struct NormBackward {
  const float* dy;
  const float* y;  // results of a relu, whose gradient dy gets first; or null
  const float* x;
  const float* mean;  // null for RMS
  const float* var;
  const float* weight;  // or null
  float* dx;
  float* dot;  // where every statistic has one weight: Σ dy · x̂ and Σ dy; or null
  float* sum;
};

// `scratch` holds stats · pieces · 2 floats.
cudaError_t load_norm();
cudaError_t launch_norm_forward(const Norm& norm, const NormForward& f, float* scratch, cudaStream_t stream);
cudaError_t launch_norm_backward(const Norm& norm, const NormBackward& b, float* scratch, cudaStream_t stream);

// Gradients of weight and bias (or null) where statistics have many weights. `scratch` holds
// norm_weight_scratch(…) floats.
long long norm_weight_scratch(const Norm& norm);
cudaError_t launch_norm_weights(const Norm& norm, const NormBackward& b, float* dweight, float* dbias, float* scratch,
                                cudaStream_t stream);

}  // namespace starling::device
