#include "starling/kernels/cuda/device/conv.h"
#include "starling/kernels/cuda/device/gemm_epilogue.cuh"
#include "starling/kernels/cuda/device/launch.cuh"

namespace starling::device {
namespace {

constexpr int kThreads = 256;

struct Coordinates {
  int n, channel, at[3];
};
// Coordinates of an element of a tensor [n, channels, size...].
__device__ __forceinline__ Coordinates coordinates_of(long long i, int channels, const int (&size)[3]) {
  Coordinates p;
#pragma unroll
  for (int d = 2; d >= 0; --d) {
    p.at[d] = static_cast<int>(i % size[d]);
    i /= size[d];
  }
  p.channel = static_cast<int>(i % channels);
  p.n = static_cast<int>(i / channels);
  return p;
}

__device__ __forceinline__ long long volume(const int (&size)[3]) {
  return static_cast<long long>(size[0]) * size[1] * size[2];
}

__global__ void __launch_bounds__(kThreads)
    forward_kernel(const __grid_constant__ Conv p, const float* x, const float* w, const float* bias,
                   Activation activation, float* y, long long outputs) {
  begin();
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= outputs) return;
  const Coordinates at = coordinates_of(i, p.o, p.y);
  const int group_in = p.c / p.groups, first = at.channel / (p.o / p.groups) * group_in;
  const float* taps = w + static_cast<long long>(at.channel) * group_in * volume(p.k);
  float sum = 0;
  for (int c = 0; c < group_in; ++c) {
    const float* image = x + (static_cast<long long>(at.n) * p.c + first + c) * volume(p.x);
    for (int a = 0; a < p.k[0]; ++a) {
      const int d = at.at[0] * p.stride[0] - p.padding[0] + a * p.dilation[0];
      for (int b = 0; b < p.k[1]; ++b) {
        const int h = at.at[1] * p.stride[1] - p.padding[1] + b * p.dilation[1];
        for (int e = 0; e < p.k[2]; ++e, ++taps) {
          const int v = at.at[2] * p.stride[2] - p.padding[2] + e * p.dilation[2];
          if (d < 0 || d >= p.x[0] || h < 0 || h >= p.x[1] || v < 0 || v >= p.x[2]) continue;
          sum += image[(static_cast<long long>(d) * p.x[1] + h) * p.x[2] + v] * *taps;
        }
      }
    }
  }
  y[i] = activated(activation, bias ? sum + bias[at.channel] : sum);
}

// Position of the window that reaches element `at` with tap `tap`; -1: none does.
__device__ __forceinline__ int window_of(const Conv& p, int axis, int at, int tap) {
  const int from = at + p.padding[axis] - tap * p.dilation[axis];
  if (from < 0 || from % p.stride[axis] != 0) return -1;
  const int window = from / p.stride[axis];
  return window < p.y[axis] ? window : -1;
}

__global__ void __launch_bounds__(kThreads)
    input_kernel(const __grid_constant__ Conv p, const float* dy, const float* w, const float* bias, float* dx,
                 long long elements) {
  begin();
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= elements) return;
  const Coordinates at = coordinates_of(i, p.c, p.x);
  const int group_in = p.c / p.groups, group_out = p.o / p.groups, group = at.channel / group_in;
  const int channel = at.channel % group_in;
  float sum = 0;
  for (int o = group * group_out; o < (group + 1) * group_out; ++o) {
    const float* taps = w + (static_cast<long long>(o) * group_in + channel) * volume(p.k);
    const float* plane = dy + (static_cast<long long>(at.n) * p.o + o) * volume(p.y);
    for (int a = 0; a < p.k[0]; ++a) {
      const int d = window_of(p, 0, at.at[0], a);
      for (int b = 0; b < p.k[1]; ++b) {
        const int h = window_of(p, 1, at.at[1], b);
        for (int e = 0; e < p.k[2]; ++e, ++taps) {
          const int v = window_of(p, 2, at.at[2], e);
          if (d >= 0 && h >= 0 && v >= 0) sum += plane[(static_cast<long long>(d) * p.y[1] + h) * p.y[2] + v] * *taps;
        }
      }
    }
  }
  dx[i] = bias ? sum + bias[at.channel] : sum;
}

// One block per weight: the sum over images and positions.
__global__ void __launch_bounds__(kThreads)
    weight_kernel(const __grid_constant__ Conv p, const float* dy, const float* x, float* dw) {
  begin();
  __shared__ float shared[32];
  const int group_in = p.c / p.groups;
  const Coordinates at = coordinates_of(blockIdx.x, group_in, p.k);  // n: the output channel
  const int channel = at.n / (p.o / p.groups) * group_in + at.channel;
  const long long positions = volume(p.y);
  float sum = 0;
  for (long long i = threadIdx.x; i < p.n * positions; i += kThreads) {
    const int n = static_cast<int>(i / positions);
    long long rest = i % positions;
    const long long position = rest;
    int from[3];
    bool inside = true;
#pragma unroll
    for (int d = 2; d >= 0; --d) {
      from[d] = static_cast<int>(rest % p.y[d]) * p.stride[d] - p.padding[d] + at.at[d] * p.dilation[d];
      rest /= p.y[d];
      inside = inside && from[d] >= 0 && from[d] < p.x[d];
    }
    if (!inside) continue;
    const float* image = x + (static_cast<long long>(n) * p.c + channel) * volume(p.x);
    sum += dy[(static_cast<long long>(n) * p.o + at.n) * positions + position] *
           image[(static_cast<long long>(from[0]) * p.x[1] + from[1]) * p.x[2] + from[2]];
  }
  sum = block_reduce(sum, 0.f, shared, Plus{});
  if (threadIdx.x == 0) dw[blockIdx.x] = sum;
}

long long count(const int (&size)[3]) { return static_cast<long long>(size[0]) * size[1] * size[2]; }

}  // namespace

cudaError_t load_conv() {
  for (const cudaError_t status : {load(forward_kernel), load(input_kernel), load(weight_kernel)}) {
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

cudaError_t launch_conv_forward(const Conv& conv, const float* x, const float* w, const float* bias,
                                Activation activation, float* y, cudaStream_t stream) {
  const long long outputs = static_cast<long long>(conv.n) * conv.o * count(conv.y);
  return launch(forward_kernel, {dim3(blocks_for(outputs, kThreads)), dim3(kThreads)}, stream, conv, x, w, bias,
                activation, y, outputs);
}

cudaError_t launch_conv_input(const Conv& conv, const float* dy, const float* w, const float* bias, float* dx,
                              cudaStream_t stream) {
  const long long elements = static_cast<long long>(conv.n) * conv.c * count(conv.x);
  return launch(input_kernel, {dim3(blocks_for(elements, kThreads)), dim3(kThreads)}, stream, conv, dy, w, bias, dx,
                elements);
}

cudaError_t launch_conv_weight(const Conv& conv, const float* dy, const float* x, float* dw, cudaStream_t stream) {
  const long long weights = static_cast<long long>(conv.o) * (conv.c / conv.groups) * count(conv.k);
  return launch(weight_kernel, {dim3(static_cast<unsigned>(weights)), dim3(kThreads)}, stream, conv, dy, x, dw);
}

}  // namespace starling::device
