#include "starling/kernels/cuda/device/gemm_epilogue.cuh"
#include "starling/kernels/cuda/device/launch.cuh"
#include "starling/kernels/cuda/device/real.cuh"
#include "starling/kernels/cuda/device/sgd.h"

namespace starling::device {
namespace {

constexpr int kThreads = 256;
constexpr int kBlock = kThreads * 4;  // elements per block

__device__ __forceinline__ bool aligned(const void* p) { return reinterpret_cast<unsigned long long>(p) % 16 == 0; }

__global__ void __launch_bounds__(kThreads) sgd_kernel(const __grid_constant__ SgdMany p) {
  begin();
  int t = 0;
  while (t + 1 < p.count && p.first_block[t + 1] <= static_cast<int>(blockIdx.x)) ++t;
  const SgdTensor& tensor = p.tensors[t];
  const long long at =
      static_cast<long long>(static_cast<int>(blockIdx.x) - p.first_block[t]) * kBlock + threadIdx.x * 4;
  if (at >= tensor.n) return;
  const int count = static_cast<int>(min(4ll, tensor.n - at));
  const bool whole = count == 4 && aligned(tensor.w + at) && aligned(tensor.v + at) && aligned(tensor.g) &&
                     aligned(tensor.w_out + at) && aligned(tensor.v_out + at);
  const Four w = load_four(tensor.w + at, count, whole), v = load_four(tensor.v + at, count, whole);
  Four g;
  if (tensor.gradient == Real::f32) {
    g = load_four(static_cast<const float*>(tensor.g) + at, count, whole);
  } else if (whole && tensor.gradient == Real::bf16) {
    const uint2 two = *reinterpret_cast<const uint2*>(static_cast<const unsigned short*>(tensor.g) + at);
    g.at[0] = low_bf16(two.x), g.at[1] = high_bf16(two.x), g.at[2] = low_bf16(two.y), g.at[3] = high_bf16(two.y);
  } else {
    for (int i = 0; i < 4; ++i) g.at[i] = i < count ? load_real({tensor.g, tensor.gradient}, at + i) : 0.f;
  }
  const float lr = *p.lr;
  Four new_w, new_v;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float slope = g.at[i] + p.decay * w.at[i];
    new_v.at[i] = p.momentum * v.at[i] + slope;
    new_w.at[i] = w.at[i] - lr * (p.nesterov ? slope + p.momentum * new_v.at[i] : new_v.at[i]);
  }
  store_four(tensor.v_out + at, new_v, count, whole);
  store_four(tensor.w_out + at, new_w, count, whole);
}

}  // namespace

cudaError_t load_sgd() { return load(sgd_kernel); }

cudaError_t launch_sgd(SgdMany& many, cudaStream_t stream) {
  unsigned blocks = 0;
  for (int i = 0; i < many.count; ++i) {
    many.first_block[i] = static_cast<int>(blocks);
    blocks += blocks_for(many.tensors[i].n, kBlock);
  }
  if (blocks == 0) return cudaSuccess;
  return launch(sgd_kernel, {dim3(blocks), dim3(kThreads)}, stream, many);
}

}  // namespace starling::device
