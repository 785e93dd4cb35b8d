#pragma once

#include <cuda_runtime.h>

namespace starling::device {

// Attention of queries [batch, queries, d] to keys [batch, keys, d] and values [batch, keys, dv]. Leading dimensions
// and rows of operands are reached by strides; their elements are neighbours. Sums in f32.
struct Attention {
  static constexpr int kMaxLeading = 6;
  struct Rows {
    long long leading[kMaxLeading];
    long long row;
  };
  enum Mask : int { none, boolean, added };
  long long batch;
  int queries, keys, d, dv;
  float scale;
  bool causal;
  int rank;  // of the leading dimensions
  long long sizes[kMaxLeading];
  Rows q, k, v, y, dy, dq, dk, dv_rows;  // 0 where a pass has no such operand
  Mask mask_kind;
  long long mask_leading[kMaxLeading];
  long long mask_row, mask_column;
};

// Largest d and dv that the kernels take.
inline constexpr int kMostAttention = 256;

cudaError_t load_attention(const Attention& attention);
cudaError_t launch_attention(const Attention& attention, const float* q, const float* k, const float* v,
                             const void* mask, float* y, float* lse, cudaStream_t stream);

// y and lse are dense results of the forward pass, dlse the gradient of the second. `scratch` holds batch · queries
// floats.
struct AttentionBackward {
  const float *dy, *dlse, *q, *k, *v, *y, *lse;
  const void* mask;
  float *dq, *dk, *dv;
};
cudaError_t launch_attention_backward(const Attention& attention, const AttentionBackward& b, float* scratch,
                                      cudaStream_t stream);

}  // namespace starling::device
