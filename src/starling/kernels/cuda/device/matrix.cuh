#pragma once

#include "starling/kernels/cuda/device/launch.cuh"
#include "starling/kernels/cuda/device/matrix.h"

namespace starling::device {

constexpr int kMatrixThreads = 256;
constexpr int kMatrixWarps = kMatrixThreads / 32;

struct DoublePlus {
  __device__ double operator()(double a, double b) const { return a + b; }
};
struct DoubleMost {
  __device__ double operator()(double a, double b) const { return a > b ? a : b; }
};

__device__ __forceinline__ double not_a_number() { return __longlong_as_double(-1); }

// Fills elements [0, n) with NaN, by all threads of a block.
template <class T>
__device__ void fill_nan(T* to, long long n) {
  for (long long i = threadIdx.x; i < n; i += kMatrixThreads) to[i] = static_cast<T>(not_a_number());
}

// True for all threads of a block if its matrix is finite.
template <class T>
__device__ bool all_finite(const T* a, long long n) {
  bool good = true;
  for (long long i = threadIdx.x; i < n; i += kMatrixThreads) good = good && a[i] - a[i] == 0;
  return __syncthreads_and(good);
}

// Sum over a warp of x[r] · y[r], in every lane.
__device__ __forceinline__ double column_dot(const double* x, const double* y, int rows) {
  double sum = 0;
  for (int r = threadIdx.x % 32; r < rows; r += 32) sum += x[r] * y[r];
  return warp_reduce(sum, DoublePlus{});
}

inline LaunchShape matrix_shape(const Matrices& m) {
  return {dim3(static_cast<unsigned>(matrix_blocks(m))), dim3(kMatrixThreads)};
}

}  // namespace starling::device
