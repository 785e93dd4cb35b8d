#pragma once

#include "starling/kernels/cuda/device/launch.cuh"

namespace starling::device {

// Sum over parts [parts, 2, width] of one column and side, in the threads (x, 0) of a block of 32 x 32; others have a
// share. `shared` is [32][33].
__device__ __forceinline__ float sum_of_parts(const float* parts, int count, int width, int column, int side,
                                              float (*shared)[33]) {
  float total = 0;
  if (column < width) {
    for (int i = threadIdx.y; i < count; i += 32) total += parts[(2ll * i + side) * width + column];
  }
  __syncthreads();
  shared[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  total = shared[threadIdx.x][threadIdx.y];
  total = warp_reduce(total, Plus{});
  __syncthreads();
  if (threadIdx.x == 0) shared[0][threadIdx.y] = total;
  __syncthreads();
  return shared[0][threadIdx.x];
}

}  // namespace starling::device
