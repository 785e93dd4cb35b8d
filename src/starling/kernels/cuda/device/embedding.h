#pragma once

#include <cuda_runtime.h>

namespace starling::device {

// out [rows, width]: row r is the sum of the rows of dy [n, width] whose index is r, in their order; zeros for the row
// `padding`. Indices out of range are left out.
struct EmbeddingSum {
  long long rows, n, padding;
  int width;
};
cudaError_t load_embedding_sum();
cudaError_t launch_embedding_sum(const EmbeddingSum& sum, const float* dy, const long long* indices, float* out,
                                 cudaStream_t stream);

}  // namespace starling::device
