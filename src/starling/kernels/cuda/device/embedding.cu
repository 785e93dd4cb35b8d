#include "starling/kernels/cuda/device/embedding.h"
#include "starling/kernels/cuda/device/launch.cuh"
#include "starling/kernels/cuda/device/real.cuh"

namespace starling::device {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr int kFew = 32;  // a warp sorts so many positions by itself

// Positions of every row as a list without order, and the rows that more than kFew positions name. Zeros at first.
struct Links {
  int *counts, *heads;   // by row; heads are a position + 1
  int* next;             // by position, + 1; 0 ends a list
  int *crowded, *crowd;  // how many rows have many positions, and which
};
unsigned long long most_crowded(const EmbeddingSum& p) { return static_cast<unsigned long long>(p.n) / (kFew + 1) + 1; }
Links links_in(const EmbeddingSum& p, void* scratch) {
  int* counts = static_cast<int*>(scratch);
  int* heads = counts + p.rows;
  return {counts, heads, heads + p.rows + 1, heads + p.rows, heads + p.rows + 1 + p.n};
}

__global__ void __launch_bounds__(kThreads)
    link_kernel(const __grid_constant__ EmbeddingSum p, const long long* indices, const __grid_constant__ Links to) {
  begin();
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= p.n) return;
  const long long row = indices[i];
  if (row < 0 || row >= p.rows || row == p.padding) return;
  to.next[i] = atomicExch(to.heads + row, static_cast<int>(i) + 1);
  if (atomicAdd(to.counts + row, 1) == kFew) to.crowd[atomicAdd(to.crowded, 1)] = static_cast<int>(row);
}

// Positions of a row, smallest first; lanes from `count` on have none.
__device__ __forceinline__ void sorted_positions(const Links& links, long long row, int count, int* sorted) {
  const int lane = threadIdx.x % 32;
  int mine = 0x7fffffff, rank = 0;
  for (int k = 0, at = links.heads[row]; k < count; ++k, at = links.next[at - 1]) {
    if (k == lane) mine = at - 1;
  }
  for (int k = 0; k < count; ++k) rank += __shfl_sync(0xffffffffu, mine, k) < mine;
  if (lane < count) sorted[rank] = mine;
  __syncwarp();
}

// One warp per row that few positions name, or none.
__global__ void __launch_bounds__(kThreads) few_kernel(const __grid_constant__ EmbeddingSum p, const float* dy,
                                                       float* out, const __grid_constant__ Links links) {
  begin();
  __shared__ int all[kWarps][kFew];
  int* sorted = all[threadIdx.x / 32];
  const long long row = static_cast<long long>(blockIdx.x) * kWarps + threadIdx.x / 32;
  const int lane = threadIdx.x % 32;
  if (row >= p.rows) return;
  const int count = links.counts[row];
  if (count > kFew) return;
  sorted_positions(links, row, count, sorted);
  float* to = out + row * p.width;
  if (p.width % 4 > 0 || !by_sixteen(dy) || !by_sixteen(out)) {
    for (int c = lane; c < p.width; c += 32) {
      float total = 0;
      for (int k = 0; k < count; ++k) total += dy[static_cast<long long>(sorted[k]) * p.width + c];
      to[c] = total;
    }
    return;
  }
  for (int c = 4 * lane; c < p.width; c += 128) {
    float4 total = make_float4(0, 0, 0, 0);
    for (int k = 0; k < count; ++k) {
      const float4 v = *reinterpret_cast<const float4*>(dy + static_cast<long long>(sorted[k]) * p.width + c);
      total.x += v.x, total.y += v.y, total.z += v.z, total.w += v.w;
    }
    *reinterpret_cast<float4*>(to + c) = total;
  }
}

// One block per crowded row and 256 columns: it looks through the indices, 256 at a time, and adds those that it finds.
__global__ void __launch_bounds__(kThreads)
    many_kernel(const __grid_constant__ EmbeddingSum p, const float* dy, const long long* indices, float* out,
                const __grid_constant__ Links links) {
  begin();
  __shared__ int found[kThreads];
  __shared__ int counts[kWarps];
  if (static_cast<int>(blockIdx.x) >= *links.crowded) return;
  const long long row = links.crowd[blockIdx.x];
  const int column = static_cast<int>(blockIdx.y) * kThreads + static_cast<int>(threadIdx.x);
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float total = 0;
  for (long long first = 0; first < p.n; first += kThreads) {
    const bool mine = first + threadIdx.x < p.n && indices[first + threadIdx.x] == row;
    const unsigned votes = __ballot_sync(0xffffffffu, mine);
    if (lane == 0) counts[warp] = __popc(votes);
    __syncthreads();
    int before = 0, all = 0;
    for (int w = 0; w < kWarps; ++w) {
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

unsigned long long embedding_sum_scratch(const EmbeddingSum& p) {
  return (static_cast<unsigned long long>(2 * p.rows + 1 + p.n) + most_crowded(p)) * sizeof(int);
}

cudaError_t load_embedding_sum() {
  for (const cudaError_t status : {load(link_kernel), load(few_kernel), load(many_kernel)}) {
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

cudaError_t launch_embedding_sum(const EmbeddingSum& sum, const float* dy, const long long* indices, float* out,
                                 void* scratch, cudaStream_t stream) {
  const Links links = links_in(sum, scratch);
  cudaError_t status =
      cudaMemsetAsync(scratch, 0, static_cast<unsigned long long>(2 * sum.rows + 1) * sizeof(int), stream);
  if (status == cudaSuccess && sum.n > 0)
    status = launch(link_kernel, {dim3(blocks_for(sum.n, kThreads)), dim3(kThreads)}, stream, sum, indices, links);
  if (status == cudaSuccess)
    status = launch(few_kernel, {dim3(blocks_for(sum.rows, kWarps)), dim3(kThreads)}, stream, sum, dy, out, links);
  if (status != cudaSuccess || sum.n <= kFew) return status;
  const dim3 grid(static_cast<unsigned>(most_crowded(sum)), blocks_for(sum.width, kThreads));
  return launch(many_kernel, {grid, dim3(kThreads)}, stream, sum, dy, indices, out, links);
}

}  // namespace starling::device
