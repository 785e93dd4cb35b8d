#include "starling/kernels/cuda/device/fold_stride.h"
#include "starling/kernels/cuda/device/launch.cuh"

namespace starling::device {
namespace {

constexpr int kThreads = 256;

using Bits = unsigned short;

// One thread per four channels of a pixel.
__global__ void __launch_bounds__(kThreads)
    fold_kernel(const __grid_constant__ FoldStride p, const Bits* x, uint2* to, long long packs) {
  begin();
  const long long number = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (number >= packs) return;
  const int across = p.wide / 4, first = static_cast<int>(number % across) * 4;
  const long long pixel = number / across;
  const int j = static_cast<int>(pixel % p.out_columns), i = static_cast<int>(pixel / p.out_columns % p.out_rows);
  const Bits* image = x + pixel / p.out_columns / p.out_rows * p.strides[0];
  unsigned made[4];
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const int channel = (first + k) % p.channels, tap = (first + k) / p.channels;
    const int row = i * p.step_rows + tap / p.step_columns - p.padding_rows;
    const int column = j * p.step_columns + tap % p.step_columns - p.padding_columns;
    const bool there =
        tap < p.step_rows * p.step_columns && row >= 0 && row < p.rows && column >= 0 && column < p.columns;
    made[k] = there ? image[channel * p.strides[1] + row * p.strides[2] + column * p.strides[3]] : 0u;
  }
  to[number] = make_uint2(made[0] | made[1] << 16, made[2] | made[3] << 16);
}

// One thread per element of the images, which lie at padding_rows = padding_columns = 0.
__global__ void __launch_bounds__(kThreads)
    unfold_kernel(const __grid_constant__ FoldStride p, const Bits* from, Bits* x, long long elements) {
  begin();
  const long long number = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (number >= elements) return;
  const int column = static_cast<int>(number % p.columns), row = static_cast<int>(number / p.columns % p.rows);
  const long long plane = number / p.columns / p.rows;
  const int channel = static_cast<int>(plane % p.channels);
  const long long image = plane / p.channels;
  const int i = row / p.step_rows, j = column / p.step_columns;
  const int tap = row % p.step_rows * p.step_columns + column % p.step_columns;
  const long long pixel = (image * p.out_rows + i) * p.out_columns + j;
  x[image * p.strides[0] + channel * p.strides[1] + row * p.strides[2] + column * p.strides[3]] =
      from[pixel * p.wide + tap * p.channels + channel];
}

LaunchShape for_items(long long items) { return {dim3(blocks_for(items, kThreads)), dim3(kThreads)}; }

}  // namespace

cudaError_t load_fold_stride() {
  const cudaError_t status = load(fold_kernel);
  return status == cudaSuccess ? load(unfold_kernel) : status;
}

cudaError_t launch_fold_stride(const FoldStride& fold, const void* x, void* to, cudaStream_t stream) {
  const long long packs = static_cast<long long>(fold.images) * fold.out_rows * fold.out_columns * (fold.wide / 4);
  if (packs == 0) return cudaSuccess;
  return launch(fold_kernel, for_items(packs), stream, fold, static_cast<const Bits*>(x), static_cast<uint2*>(to),
                packs);
}

cudaError_t launch_unfold_stride(const FoldStride& fold, const void* from, void* x, cudaStream_t stream) {
  const long long elements = static_cast<long long>(fold.images) * fold.channels * fold.rows * fold.columns;
  if (elements == 0) return cudaSuccess;
  return launch(unfold_kernel, for_items(elements), stream, fold, static_cast<const Bits*>(from), static_cast<Bits*>(x),
                elements);
}

}  // namespace starling::device
