#pragma once

#include <cfloat>

namespace starling::device {

// A log-sum-exp that is large was rounded by as much as shows in the probabilities e^(x - lse) of its row: their sum, 1
// but for that, makes it good. Ordinary logits need no sum.
__device__ __forceinline__ bool is_rounded(float lse) { return fabsf(lse) > 16.f; }
__device__ __forceinline__ float correction(float sum, float lse) {
  return sum > 0.f && fabsf(sum - 1.f) <= fabsf(lse) * FLT_EPSILON ? 1.f / sum : 1.f;
}

}  // namespace starling::device
