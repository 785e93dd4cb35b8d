#pragma once

#include <cuda_runtime.h>

namespace starling::device {

// out [rows, width]: row r is the sum of the rows of dy [n, width] whose index is r, in their order; zeros for the row
// `padding`. Indices out of range are left out.
struct EmbeddingSum {
  long long rows, n, padding;
  int width;
};
// Bytes of scratch: who asks for which row is linked there.
unsigned long long embedding_sum_scratch(const EmbeddingSum& sum);
cudaError_t load_embedding_sum();
cudaError_t launch_embedding_sum(const EmbeddingSum& sum, const float* dy, const long long* indices, float* out,
                                 void* scratch, cudaStream_t stream);

}  // namespace starling::device
