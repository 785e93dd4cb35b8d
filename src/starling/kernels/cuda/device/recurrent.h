#pragma once

#include <cuda_runtime.h>

namespace starling::device {

// One step of a recurrent layer for a batch of rows. Pointers are those of the step: gates and inputs [batch, k · h],
// states [batch, h] before (`from`) and after (`to`) it. `product` is states · wᵀ forward, gradients · w backward.
// A row is past its end where step ≥ lengths[row]; it keeps its state.
struct Step {
  int batch, hidden;
  long long step;
  const long long* lengths;  // or null
};

struct LstmForward {
  const float *gx, *product, *c_from, *h_from;
  float *h_to, *c_to, *gates;
};
// First half of a backward step: gradients of the gates; of the cell before and, once more, after the step.
struct LstmBackward {
  const float *dgates, *gates, *c_from, *c_to, *dh_to, *dcs_from;  // dgates and dcs may be null: zero
  float *dgx, *dc_from, *dc_to;
};
struct GruForward {
  const float *gx, *product, *bias, *h_from;
  float *h_to, *gates;
};
struct GruBackward {
  const float *dgates, *gates, *h_from, *dh_to;
  float *dgx, *dp;
};
struct RnnForward {
  const float *gx, *product, *h_from;
  float* h_to;
  bool relu;
};
struct RnnBackward {
  const float *h_to, *dh_to;
  float* dgx;
  bool relu;
};
// Directional derivatives of a step along changes of its inputs (ugx), states (uh, uc) and, for GRUs, of what is added
// to the product (up); null: zero.
struct LstmTangent {
  const float *ugx, *product, *gates, *c_from, *c_to, *uh_to, *uc_to, *th_from, *tc_from;
  float *th_to, *tc_to, *tgates;
};
struct GruTangent {
  const float *ugx, *up, *product, *gates, *h_from, *uh_to, *th_from;
  float *th_to, *tgates;
};
struct RnnTangent {
  const float *ugx, *product, *h_to, *uh_to, *th_from;
  float* th_to;
  bool relu;
};
// Second half of a backward step: dh_from = dhs_from + (active ? product + dh_to · gate : dh_to); without a gate the
// term is 0.
struct StateBackward {
  const float *product, *dh_to, *dhs_from;  // dhs may be null: zero
  const float* gate;                        // [batch, pitch], or null
  int pitch;
  float* dh_from;
};

cudaError_t load_recurrent();
cudaError_t launch_step(const Step& step, const LstmForward& f, cudaStream_t stream);
cudaError_t launch_step(const Step& step, const LstmBackward& f, cudaStream_t stream);
cudaError_t launch_step(const Step& step, const GruForward& f, cudaStream_t stream);
cudaError_t launch_step(const Step& step, const GruBackward& f, cudaStream_t stream);
cudaError_t launch_step(const Step& step, const RnnForward& f, cudaStream_t stream);
cudaError_t launch_step(const Step& step, const RnnBackward& f, cudaStream_t stream);
cudaError_t launch_step(const Step& step, const LstmTangent& f, cudaStream_t stream);
cudaError_t launch_step(const Step& step, const GruTangent& f, cudaStream_t stream);
cudaError_t launch_step(const Step& step, const RnnTangent& f, cudaStream_t stream);
cudaError_t launch_step(const Step& step, const StateBackward& f, cudaStream_t stream);

}  // namespace starling::device
