#pragma once

#include <cstddef>

#include "starling/kernels/attention_shape.h"

namespace starling::kernels {

// Blocked attention in f32: scores of a few queries and keys at a time stay in cache and are never stored as a whole.
// Threads share out the entries of the batch. The backward pass recomputes the probabilities from lse.
struct AttentionForward {
  AttentionShape shape;
  const float* q;
  const float* k;
  const float* v;
  const void* mask;
  float* y;
  float* lse;
};

struct AttentionBackward {
  AttentionShape shape;
  const float* dy;
  const float* dlse;
  const float* q;
  const float* k;
  const float* v;
  const float* y;
  const float* lse;
  const void* mask;
  float* dq;
  float* dk;
  float* dv;
};

int attention_threads(const AttentionShape& shape, int threads);
std::size_t attention_forward_scratch(const AttentionShape& shape, int threads);  // bytes
std::size_t attention_backward_scratch(const AttentionShape& shape, int threads);
void attention_forward(const AttentionForward& job, void* scratch, int threads);
void attention_backward(const AttentionBackward& job, void* scratch, int threads);

}  // namespace starling::kernels
