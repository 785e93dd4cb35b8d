#include "starling/kernels/cuda/device/cross_entropy.h"
#include "starling/kernels/cuda/device/launch.cuh"
#include "starling/kernels/cuda/device/real.cuh"
#include "starling/kernels/cuda/device/softmax_sum.cuh"

namespace starling::device {
namespace {

constexpr int kFew = 1024;  // classes below which a warp has enough to do

// Largest value and Σ e^(x - largest) of what was seen.
struct Running {
  float largest, sum;
};
struct Join {
  __device__ Running operator()(Running a, Running b) const {
    if (a.largest != a.largest || b.largest != b.largest) return {NAN, NAN};
    const float largest = fmaxf(a.largest, b.largest);
    if (largest == -INFINITY) return {largest, 0.f};
    return {largest, a.sum * __expf(a.largest - largest) + b.sum * __expf(b.largest - largest)};
  }
};

template <int V>
__device__ __forceinline__ void see(Running& seen, const float (&x)[V]) {
  float most = seen.largest;
#pragma unroll
  for (int k = 0; k < V; ++k) most = Larger{}(most, x[k]);
  if (most == -INFINITY) return;
  float sum = seen.sum * __expf(seen.largest - most);
#pragma unroll
  for (int k = 0; k < V; ++k) sum += __expf(x[k] - most);
  seen = {most, sum};
}

__device__ __forceinline__ Running block_join(Running value) {
  __shared__ Running shared[32];
  for (int offset = 16; offset > 0; offset /= 2) {
    const Running other{__shfl_xor_sync(0xffffffffu, value.largest, offset),
                        __shfl_xor_sync(0xffffffffu, value.sum, offset)};
    value = Join{}(value, other);
  }
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
  __syncthreads();
  for (unsigned w = 0; w < blockDim.x / 32; ++w) {
    if (w != threadIdx.x / 32) value = Join{}(value, shared[w]);
  }
  return value;
}

// One block per row.
__global__ void __launch_bounds__(256)
    rows_kernel(const __grid_constant__ CrossEntropyRows p, float* lse, float* losses) {
  begin();
  const long long row = blockIdx.x, first = row * p.classes;
  Running seen{-INFINITY, 0.f};
  if (p.classes % 8 == 0) {
    for (int i = static_cast<int>(threadIdx.x) * 8; i < p.classes; i += static_cast<int>(blockDim.x) * 8)
      see(seen, load_eight(p.logits, first + i).at);
  } else {
    for (int i = static_cast<int>(threadIdx.x); i < p.classes; i += static_cast<int>(blockDim.x)) {
      const float x[1] = {load_real(p.logits, first + i)};
      see(seen, x);
    }
  }
  seen = block_join(seen);
  if (threadIdx.x > 0) return;
  const long long label = p.labels[row];
  const float rest = logf(seen.sum);
  const float logit = label >= 0 && label < p.classes ? load_real(p.logits, first + label) : NAN;
  const float weight = p.weights ? p.weights[row] : 1.f;
  lse[row] = seen.largest + rest;
  losses[row] = weight * (seen.largest - logit + rest);
}

// Factor of the probabilities of a row, in every thread; all have read the row then.
__device__ __forceinline__ float correction_of_row(const CrossEntropyRows& p, long long first, float from) {
  if (!is_rounded(from)) return 1.f;
  __shared__ float shared[32];
  float sum = 0.f;
  for (int i = static_cast<int>(threadIdx.x); i < p.classes; i += static_cast<int>(blockDim.x))
    sum += __expf(load_real(p.logits, first + i) - from);
  return correction(block_reduce(sum, 0.f, shared, Plus{}), from);
}

__global__ void __launch_bounds__(256)
    backward_kernel(const __grid_constant__ CrossEntropyRows p, const float* lse, const float* scale, RealsOut out) {
  begin();
  const long long row = blockIdx.x, first = row * p.classes, label = p.labels[row];
  const float factor = *scale * (p.weights ? p.weights[row] : 1.f);
  const float from = label >= 0 && label < p.classes ? lse[row] : NAN, times = correction_of_row(p, first, from);
  if (p.classes % 8 == 0) {
    for (int i = static_cast<int>(threadIdx.x) * 8; i < p.classes; i += static_cast<int>(blockDim.x) * 8) {
      Eight x = load_eight(p.logits, first + i);
#pragma unroll
      for (int k = 0; k < 8; ++k) x.at[k] = (times * __expf(x.at[k] - from) - (i + k == label ? 1.f : 0.f)) * factor;
      store_eight(out, first + i, x);
    }
    return;
  }
  for (int i = static_cast<int>(threadIdx.x); i < p.classes; i += static_cast<int>(blockDim.x)) {
    const float x = load_real(p.logits, first + i);
    store_real(out, first + i, (times * __expf(x - from) - (i == label ? 1.f : 0.f)) * factor);
  }
}

LaunchShape shape_of(const CrossEntropyRows& p) {
  return {dim3(static_cast<unsigned>(p.rows)), dim3(p.classes < kFew ? 32 : 256)};
}

}  // namespace

cudaError_t load_cross_entropy_rows() {
  const cudaError_t status = load(rows_kernel);
  return status == cudaSuccess ? load(backward_kernel) : status;
}

cudaError_t launch_cross_entropy_rows(const CrossEntropyRows& p, float* lse, float* losses, cudaStream_t stream) {
  return launch(rows_kernel, shape_of(p), stream, p, lse, losses);
}

cudaError_t launch_cross_entropy_rows_backward(const CrossEntropyRows& p, const float* lse, const float* scale,
                                               RealsOut out, cudaStream_t stream) {
  return launch(backward_kernel, shape_of(p), stream, p, lse, scale, out);
}

}  // namespace starling::device
