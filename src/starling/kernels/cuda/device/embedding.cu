#include "starling/kernels/cuda/device/embedding.h"
#include "starling/kernels/cuda/device/launch.cuh"

namespace starling::device {
namespace {

constexpr int kThreads = 256;

// One block per row and 256 columns: it looks through the indices, 256 at a time, and adds those that it finds.
__global__ void __launch_bounds__(kThreads)
    embedding_sum_kernel(const __grid_constant__ EmbeddingSum p, const float* dy, const long long* indices,
                         float* out) {
  begin();
  __shared__ int found[kThreads];
  __shared__ int counts[kThreads / 32];
  const long long row = blockIdx.x;
  const int column = static_cast<int>(blockIdx.y) * kThreads + static_cast<int>(threadIdx.x);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float total = 0;
  for (long long first = 0; first < p.n && row != p.padding; first += kThreads) {
    const bool mine = first + threadIdx.x < p.n && indices[first + threadIdx.x] == row;
    const unsigned votes = __ballot_sync(0xffffffffu, mine);
    if (lane == 0) counts[warp] = __popc(votes);
    __syncthreads();
    int before = 0, all = 0;
    for (int w = 0; w < kThreads / 32; ++w) {
      before += w < warp ? counts[w] : 0;
      all += counts[w];
    }
    if (mine) found[before + __popc(votes & ((1u << lane) - 1))] = static_cast<int>(threadIdx.x);
    __syncthreads();
    for (int i = 0; i < all && column < p.width; ++i) total += dy[(first + found[i]) * p.width + column];
    __syncthreads();
  }
  if (column < p.width) out[row * p.width + column] = total;
}

}  // namespace

cudaError_t load_embedding_sum() { return load(embedding_sum_kernel); }

cudaError_t launch_embedding_sum(const EmbeddingSum& sum, const float* dy, const long long* indices, float* out,
                                 cudaStream_t stream) {
  return launch(embedding_sum_kernel,
                {dim3(static_cast<unsigned>(sum.rows), blocks_for(sum.width, kThreads)), dim3(kThreads)}, stream, sum,
                dy, indices, out);
}

}  // namespace starling::device
