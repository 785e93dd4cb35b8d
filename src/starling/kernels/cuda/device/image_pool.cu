#include "starling/kernels/cuda/device/image_pool.h"
#include "starling/kernels/cuda/device/launch.cuh"
#include "starling/kernels/cuda/device/real.cuh"

namespace starling::device {
namespace {

constexpr int kThreads = 256;

// Pack of 8 channels at a position of an image.
struct Site {
  int image, row, column, channel;
};
__device__ __forceinline__ Site site_of(long long number, int rows, int columns, int channels) {
  const int packs = channels / 8;
  const int channel = static_cast<int>(number % packs) * 8;
  number /= packs;
  const int column = static_cast<int>(number % columns);
  number /= columns;
  return {static_cast<int>(number / rows), static_cast<int>(number % rows), column, channel};
}
__device__ __forceinline__ long long offset_of(int image, int position, int area, int channels) {
  return (static_cast<long long>(image) * area + position) * channels;
}

__global__ void __launch_bounds__(kThreads)
    max_kernel(const __grid_constant__ ImagePool p, Reals x, RealsOut y, int* index, long long sites) {
  begin();
  const long long number = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (number >= sites) return;
  const Site at = site_of(number, p.rows.out, p.columns.out, p.channels);
  Eight best;
  int place[8];
#pragma unroll
  for (int k = 0; k < 8; ++k) best.at[k] = -INFINITY, place[k] = -1;
  for (int a = 0; a < p.rows.kernel; ++a) {
    const int h = at.row * p.rows.stride - p.rows.padding + a * p.rows.dilation;
    if (h < 0 || h >= p.rows.in) continue;
    for (int b = 0; b < p.columns.kernel; ++b) {
      const int w = at.column * p.columns.stride - p.columns.padding + b * p.columns.dilation;
      if (w < 0 || w >= p.columns.in) continue;
      const int from = h * p.columns.in + w;
      const Eight v = load_eight(x, offset_of(at.image, from, p.rows.in * p.columns.in, p.channels) + at.channel);
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        const bool larger = place[k] < 0 || v.at[k] > best.at[k] || (v.at[k] != v.at[k] && best.at[k] == best.at[k]);
        best.at[k] = larger ? v.at[k] : best.at[k];
        place[k] = larger ? from : place[k];
      }
    }
  }
  store_eight(y, number * 8, best);
  if (!index) return;
  int4* to = reinterpret_cast<int4*>(index + number * 8);
  to[0] = make_int4(place[0], place[1], place[2], place[3]);
  to[1] = make_int4(place[4], place[5], place[6], place[7]);
}

// One block per image and 256 channels; its 8 rows of 32 packs share the positions.
__global__ void __launch_bounds__(kThreads) mean_kernel(const __grid_constant__ ImagePool p, Reals x, RealsOut y) {
  begin();
  __shared__ float shared[8][32][9];
  const int channel = (static_cast<int>(blockIdx.x) * 32 + static_cast<int>(threadIdx.x)) * 8;
  const int area = p.rows.in * p.columns.in, image = static_cast<int>(blockIdx.y);
  Eight sum{};
  if (channel < p.channels) {
    for (int i = static_cast<int>(threadIdx.y); i < area; i += 8) {
      const Eight v = load_eight(x, offset_of(image, i, area, p.channels) + channel);
#pragma unroll
      for (int k = 0; k < 8; ++k) sum.at[k] += v.at[k];
    }
  }
#pragma unroll
  for (int k = 0; k < 8; ++k) shared[threadIdx.y][threadIdx.x][k] = sum.at[k];
  __syncthreads();
  if (threadIdx.y > 0 || channel >= p.channels) return;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    for (int r = 1; r < 8; ++r) sum.at[k] += shared[r][threadIdx.x][k];
    sum.at[k] /= static_cast<float>(area);
  }
  store_eight(y, static_cast<long long>(image) * p.channels + channel, sum);
}

__global__ void __launch_bounds__(kThreads)
    mean_backward_kernel(const __grid_constant__ ImagePool p, Reals dy, RealsOut dx, long long sites) {
  begin();
  const long long number = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (number >= sites) return;
  const Site at = site_of(number, p.rows.in, p.columns.in, p.channels);
  Eight g = load_eight(dy, static_cast<long long>(at.image) * p.channels + at.channel);
  const float area = static_cast<float>(p.rows.in * p.columns.in);
#pragma unroll
  for (int k = 0; k < 8; ++k) g.at[k] /= area;
  store_eight(dx, number * 8, g);
}

// Every `step`-th window along rows and columns: windows that lie apart, so that no two name one position.
struct Phase {
  int row, column, step;
  __host__ __device__ int rows(const ImagePool& p) const { return (p.rows.out - row + step - 1) / step; }
  __host__ __device__ int columns(const ImagePool& p) const { return (p.columns.out - column + step - 1) / step; }
};

// Windows [first, last] that may contain an element; with dilation not all of them do, and their positions say so.
__device__ __forceinline__ int2 windows_around(const PoolAxis& a, int at) {
  const int reach = at + a.padding - (a.kernel - 1) * a.dilation;
  const int first = reach > 0 ? (reach + a.stride - 1) / a.stride : 0;
  return make_int2(first, min((at + a.padding) / a.stride, a.out - 1));
}

__global__ void __launch_bounds__(kThreads)
    max_backward_kernel(const __grid_constant__ ImagePool p, Reals dy, const int* index, RealsOut dx, long long sites) {
  begin();
  const long long number = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (number >= sites) return;
  const Site at = site_of(number, p.rows.in, p.columns.in, p.channels);
  const int2 rows = windows_around(p.rows, at.row), columns = windows_around(p.columns, at.column);
  const int place = at.row * p.columns.in + at.column;
  Eight sum{};
  for (int h = rows.x; h <= rows.y; ++h) {
    if ((at.row + p.rows.padding - h * p.rows.stride) % p.rows.dilation != 0) continue;
    for (int w = columns.x; w <= columns.y; ++w) {
      if ((at.column + p.columns.padding - w * p.columns.stride) % p.columns.dilation != 0) continue;
      const long long from =
          offset_of(at.image, h * p.columns.out + w, p.rows.out * p.columns.out, p.channels) + at.channel;
      const int4 low = *reinterpret_cast<const int4*>(index + from);
      const int4 high = *reinterpret_cast<const int4*>(index + from + 4);
      const int places[8] = {low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w};
      const Eight g = load_eight(dy, from);
#pragma unroll
      for (int k = 0; k < 8; ++k) sum.at[k] += places[k] == place ? g.at[k] : 0.f;
    }
  }
  store_eight(dx, number * 8, sum);
}

// Windows of a phase that do name one position, as windows of more than `step` strides may, are summed all the same.
__global__ void __launch_bounds__(kThreads) scatter_kernel(const __grid_constant__ ImagePool p, Phase phase, Reals dy,
                                                           const int* index, float* sums, long long sites) {
  begin();
  const long long number = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (number >= sites) return;
  const Site at = site_of(number, phase.rows(p), phase.columns(p), p.channels);
  const int window = (phase.row + at.row * phase.step) * p.columns.out + phase.column + at.column * phase.step;
  const long long from = offset_of(at.image, window, p.rows.out * p.columns.out, p.channels) + at.channel;
  const Eight g = load_eight(dy, from);
  const int area = p.rows.in * p.columns.in;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const int position = index[from + k];
    if (position < 0 || position >= area) continue;
    atomicAdd(sums + offset_of(at.image, position, area, p.channels) + at.channel + k, g.at[k]);
  }
}

__global__ void __launch_bounds__(kThreads) convert_kernel(const float* from, RealsOut to, long long packs) {
  begin();
  const long long number = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (number < packs) store_eight(to, number * 8, load_eight({from, Real::f32}, number * 8));
}

long long sites_in(const ImagePool& p) {
  return static_cast<long long>(p.images) * p.rows.in * p.columns.in * (p.channels / 8);
}
long long sites_out(const ImagePool& p) {
  return static_cast<long long>(p.images) * p.rows.out * p.columns.out * (p.channels / 8);
}
LaunchShape for_sites(long long sites) { return {dim3(blocks_for(sites, kThreads)), dim3(kThreads)}; }

}  // namespace

cudaError_t load_image_pool() {
  for (const cudaError_t status : {load(max_kernel), load(mean_kernel), load(mean_backward_kernel),
                                   load(max_backward_kernel), load(scatter_kernel), load(convert_kernel)}) {
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

cudaError_t launch_image_max_pool(const ImagePool& pool, Reals x, RealsOut y, int* index, cudaStream_t stream) {
  const long long sites = sites_out(pool);
  return launch(max_kernel, for_sites(sites), stream, pool, x, y, index, sites);
}

cudaError_t launch_image_mean(const ImagePool& pool, Reals x, RealsOut y, cudaStream_t stream) {
  const dim3 grid(blocks_for(pool.channels, 256), static_cast<unsigned>(pool.images));
  return launch(mean_kernel, {grid, dim3(32, 8)}, stream, pool, x, y);
}

cudaError_t launch_image_mean_backward(const ImagePool& pool, Reals dy, RealsOut dx, cudaStream_t stream) {
  const long long sites = sites_in(pool);
  return launch(mean_backward_kernel, for_sites(sites), stream, pool, dy, dx, sites);
}

cudaError_t launch_image_max_backward(const ImagePool& pool, Reals dy, const int* index, RealsOut dx,
                                      cudaStream_t stream) {
  const long long sites = sites_in(pool);
  return launch(max_backward_kernel, for_sites(sites), stream, pool, dy, index, dx, sites);
}

cudaError_t launch_image_scatter(const ImagePool& pool, Reals dy, const int* index, float* sums, RealsOut dx,
                                 cudaStream_t stream) {
  const long long in = sites_in(pool);
  cudaError_t status = cudaMemsetAsync(sums, 0, static_cast<unsigned long long>(in) * 8 * sizeof(float), stream);
  if (status != cudaSuccess) return status;
  // Windows of common networks reach over two strides, or three where the stride is 1.
  const int step = 2 * pool.rows.in >= 3 * pool.rows.out && 2 * pool.columns.in >= 3 * pool.columns.out ? 2 : 3;
  for (int number = 0; number < step * step && status == cudaSuccess; ++number) {
    const Phase phase{number / step, number % step, step};
    const long long sites =
        static_cast<long long>(pool.images) * phase.rows(pool) * phase.columns(pool) * (pool.channels / 8);
    if (sites > 0) status = launch(scatter_kernel, for_sites(sites), stream, pool, phase, dy, index, sums, sites);
  }
  if (status != cudaSuccess) return status;
  return launch(convert_kernel, for_sites(in), stream, sums, dx, in);
}

}  // namespace starling::device
