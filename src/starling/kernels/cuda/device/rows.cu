#include "starling/kernels/cuda/device/launch.cuh"
#include "starling/kernels/cuda/device/reduce.h"
#include "starling/kernels/cuda/device/rows.h"
#include "starling/kernels/cuda/device/softmax_sum.cuh"

namespace starling::device {
namespace {

constexpr int kWarps = 4;  // rows per block, one warp each

// Largest element of a row and Σ e^(x - largest), in every lane.
__device__ __forceinline__ float2 exponent_sum(const float* row, int columns) {
  const int lane = threadIdx.x % 32;
  float largest = -INFINITY, sum = 0;
  for (int i = lane; i < columns; i += 32) largest = Larger{}(largest, row[i]);
  largest = warp_reduce(largest, Larger{});
  for (int i = lane; i < columns; i += 32) sum += expf(row[i] - largest);
  return make_float2(largest, warp_reduce(sum, Plus{}));
}

template <RowFunction F>
__global__ void __launch_bounds__(kWarps * 32)
    rows_kernel(const float* first, const float* second, float* out, long long rows, int columns) {
  begin();
  const long long row = static_cast<long long>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row >= rows) return;
  const int lane = threadIdx.x % 32;
  const float* a = first + row * columns;
  float* to = out + row * columns;
  if constexpr (F == RowFunction::softmax || F == RowFunction::log_softmax) {
    const float2 e = exponent_sum(a, columns);
    const float inverse = 1.f / e.y, lse = e.x + logf(e.y);
    for (int i = lane; i < columns; i += 32)
      to[i] = F == RowFunction::softmax ? expf(a[i] - e.x) * inverse : a[i] - lse;
  } else {
    const float* b = second + row * columns;
    float sum = 0;
    for (int i = lane; i < columns; i += 32) sum += F == RowFunction::softmax_backward ? a[i] * b[i] : a[i];
    sum = warp_reduce(sum, Plus{});
    for (int i = lane; i < columns; i += 32)
      to[i] = F == RowFunction::softmax_backward ? b[i] * (a[i] - sum) : a[i] - expf(b[i]) * sum;
  }
}

template <class Use>
cudaError_t with_function(RowFunction function, Use&& use) {
  switch (function) {
    case RowFunction::softmax: return use(rows_kernel<RowFunction::softmax>);
    case RowFunction::log_softmax: return use(rows_kernel<RowFunction::log_softmax>);
    case RowFunction::softmax_backward: return use(rows_kernel<RowFunction::softmax_backward>);
    case RowFunction::log_softmax_backward: return use(rows_kernel<RowFunction::log_softmax_backward>);
  }
  return cudaErrorInvalidValue;
}

__device__ __forceinline__ float label_logit(const float* row, long long label, int classes) {
  return label >= 0 && label < classes ? row[label] : NAN;
}

// Few classes: one thread per row and one block for all, so that the sum needs no second kernel.
constexpr int kSmallThreads = 512;
__global__ void __launch_bounds__(kSmallThreads)
    cross_entropy_small(const float* logits, const long long* labels, float* sum, float* lse, float* losses,
                        long long rows, int classes) {
  begin();
  __shared__ float shared[32];
  float total = 0;
  for (long long row = threadIdx.x; row < rows; row += kSmallThreads) {
    const float* x = logits + row * classes;
    float largest = x[0], exponents = 0;
#pragma unroll 5
    for (int i = 1; i < classes; ++i) largest = Larger{}(largest, x[i]);
#pragma unroll 5
    for (int i = 0; i < classes; ++i) exponents += expf(x[i] - largest);
    const float rest = logf(exponents), loss = largest - label_logit(x, labels[row], classes) + rest;
    lse[row] = largest + rest;
    losses[row] = loss;
    total += loss;
  }
  total = block_reduce(total, 0.f, shared, Plus{});
  if (threadIdx.x == 0) *sum = total;
}

__global__ void __launch_bounds__(kWarps * 32)
    cross_entropy_rows(const float* logits, const long long* labels, float* losses, float* lse, long long rows,
                       int classes) {
  begin();
  const long long row = static_cast<long long>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row >= rows) return;
  const float* x = logits + row * classes;
  const float2 e = exponent_sum(x, classes);
  if (threadIdx.x % 32 != 0) return;
  const float rest = logf(e.y);
  lse[row] = e.x + rest;
  losses[row] = e.x - label_logit(x, labels[row], classes) + rest;
}

// L threads per row, which have read all of it before the first writes: the result may overwrite the logits.
template <int L>
__global__ void __launch_bounds__(256) backward_kernel(const float* logits, const long long* labels, const float* lse,
                                                       const float* scale, float* out, long long rows, int classes) {
  begin();
  const long long row = (static_cast<long long>(blockIdx.x) * 256 + threadIdx.x) / L;
  const bool there = row < rows;
  const int lane = threadIdx.x % L;
  const long long label = there ? labels[row] : -1;
  const float from = label >= 0 && label < classes ? lse[row] : NAN;
  const float* x = logits + row * classes;
  float sum = 0.f;
  if (is_rounded(from)) {
    for (int i = lane; i < classes; i += L) sum += expf(x[i] - from);
  }
#pragma unroll
  for (int offset = L / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  if (!there) return;
  const float times = is_rounded(from) ? correction(sum, from) : 1.f;
  for (int i = lane; i < classes; i += L)
    out[row * classes + i] = (times * expf(x[i] - from) - (i == label ? 1.f : 0.f)) * *scale;
}

constexpr int kFewClasses = 16;

bool is_small(long long rows, int classes) { return rows * classes <= (1 << 14) && classes <= 64; }

Reduce all_rows(long long rows) { return {1, rows, 1, Reduction::sum, 1.f}; }

}  // namespace

cudaError_t load_rows(RowFunction function) {
  return with_function(function, [](auto* kernel) { return load(kernel); });
}

cudaError_t launch_rows_function(RowFunction function, const float* first, const float* second, float* out,
                                 long long rows, int columns, cudaStream_t stream) {
  const LaunchShape shape{dim3(blocks_for(rows, kWarps)), dim3(kWarps * 32)};
  return with_function(function,
                       [&](auto* kernel) { return launch(kernel, shape, stream, first, second, out, rows, columns); });
}

long long cross_entropy_scratch(long long rows, int classes) {
  return is_small(rows, classes) ? 0 : reduce_pieces(all_rows(rows));
}

cudaError_t load_cross_entropy() {
  for (const cudaError_t status : {load(cross_entropy_small), load(cross_entropy_rows), load_reduce()}) {
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

cudaError_t launch_cross_entropy(const float* logits, const long long* labels, float* sum, float* lse, float* losses,
                                 long long rows, int classes, float* scratch, cudaStream_t stream) {
  if (is_small(rows, classes)) {
    return launch(cross_entropy_small, {dim3(1), dim3(kSmallThreads)}, stream, logits, labels, sum, lse, losses, rows,
                  classes);
  }
  const cudaError_t status = launch(cross_entropy_rows, {dim3(blocks_for(rows, kWarps)), dim3(kWarps * 32)}, stream,
                                    logits, labels, losses, lse, rows, classes);
  if (status != cudaSuccess) return status;
  return launch_reduce(all_rows(rows), losses, sum, scratch, stream);
}

cudaError_t load_cross_entropy_backward() {
  const cudaError_t status = load(backward_kernel<kFewClasses>);
  return status == cudaSuccess ? load(backward_kernel<32>) : status;
}

cudaError_t launch_cross_entropy_backward(const float* logits, const long long* labels, const float* lse,
                                          const float* scale, float* out, long long rows, int classes,
                                          cudaStream_t stream) {
  const auto by = [&](auto* kernel, int lanes) {
    return launch(kernel, {dim3(blocks_for(rows * lanes, 256)), dim3(256)}, stream, logits, labels, lse, scale, out,
                  rows, classes);
  };
  return classes <= kFewClasses ? by(backward_kernel<kFewClasses>, kFewClasses) : by(backward_kernel<32>, 32);
}

}  // namespace starling::device
