#include "starling/kernels/cuda/device/launch.cuh"
#include "starling/kernels/cuda/device/pool.h"

namespace starling::device {
namespace {

constexpr int kThreads = 256;

// Elements [first, last) of a window, `step` apart, that lie in the image.
struct Taps {
  int first, last, step;
};
__device__ __forceinline__ Taps taps_of(const PoolAxis& a, int window) {
  if (a.even) {
    const long long i = window;
    return {static_cast<int>(i * a.in / a.out), static_cast<int>(((i + 1) * a.in + a.out - 1) / a.out), 1};
  }
  int first = window * a.stride - a.padding;
  const int last = min(first + (a.kernel - 1) * a.dilation + 1, a.in);
  if (first < 0) first += (-first + a.dilation - 1) / a.dilation * a.dilation;
  return {first, last, a.dilation};
}

// Elements of a window that an average counts.
__device__ __forceinline__ float counted(const Pool& p, const PoolAxis& a, int window) {
  if (a.even) {
    const Taps t = taps_of(a, window);
    return static_cast<float>(t.last - t.first);
  }
  const int first = window * a.stride - a.padding, last = min(first + a.kernel, a.in + a.padding);
  if (p.include_pad) return static_cast<float>(last - first);
  return static_cast<float>(min(last, a.in) - max(first, 0));
}

__device__ __forceinline__ float divisor_of(const Pool& p, int i, int j, int k) {
  if (p.divisor > 0) return p.divisor;
  return counted(p, p.axes[0], i) * counted(p, p.axes[1], j) * counted(p, p.axes[2], k);
}

template <PoolKind K>
__global__ void __launch_bounds__(kThreads)
    pool_kernel(const __grid_constant__ Pool p, const float* x, float* y, int* index, long long outputs) {
  begin();
  const long long at = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= outputs) return;
  const PoolAxis &a = p.axes[0], &b = p.axes[1], &c = p.axes[2];
  const int k = static_cast<int>(at % c.out), j = static_cast<int>(at / c.out % b.out);
  const int i = static_cast<int>(at / c.out / b.out % a.out);
  const long long plane = at / c.out / b.out / a.out;
  const float* image = x + plane * a.in * b.in * c.in;
  const Taps depth = taps_of(a, i), rows = taps_of(b, j), columns = taps_of(c, k);
  float best = K == PoolKind::max ? -INFINITY : 0;
  int place = -1;
  for (int d = depth.first; d < depth.last; d += depth.step) {
    for (int h = rows.first; h < rows.last; h += rows.step) {
      for (int w = columns.first; w < columns.last; w += columns.step) {
        const int from = (d * b.in + h) * c.in + w;
        const float v = image[from];
        if (K == PoolKind::max) {
          if (place < 0 || v > best || (v != v && best == best)) best = v, place = from;
        } else {
          best += K != PoolKind::lp ? v : p.power == 2 ? v * v : powf(fabsf(v), p.power);
        }
      }
    }
  }
  if (K == PoolKind::average) best /= divisor_of(p, i, j, k);
  if (K == PoolKind::lp) best = p.power == 2 ? sqrtf(best) : powf(best, 1.f / p.power);
  y[at] = best;
  if (K == PoolKind::max && index) index[at] = place;
}

// Windows [first, last] that an element lies in.
__device__ __forceinline__ int2 windows_of(const PoolAxis& a, int at) {
  if (a.even) {
    const long long i = at;
    return make_int2(static_cast<int>(i * a.out / a.in),
                     min(static_cast<int>(((i + 1) * a.out - 1) / a.in), a.out - 1));
  }
  const int reach = at + a.padding - a.kernel;
  return make_int2(reach < 0 ? 0 : reach / a.stride + 1, min((at + a.padding) / a.stride, a.out - 1));
}

__global__ void __launch_bounds__(kThreads)
    average_backward_kernel(const __grid_constant__ Pool p, const float* dy, float* dx, long long elements) {
  begin();
  const long long at = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= elements) return;
  const PoolAxis &a = p.axes[0], &b = p.axes[1], &c = p.axes[2];
  const int w = static_cast<int>(at % c.in), h = static_cast<int>(at / c.in % b.in);
  const int d = static_cast<int>(at / c.in / b.in % a.in);
  const long long plane = at / c.in / b.in / a.in;
  const float* from = dy + plane * a.out * b.out * c.out;
  const int2 depth = windows_of(a, d), rows = windows_of(b, h), columns = windows_of(c, w);
  float sum = 0;
  for (int i = depth.x; i <= depth.y; ++i) {
    for (int j = rows.x; j <= rows.y; ++j) {
      for (int k = columns.x; k <= columns.y; ++k) sum += from[(i * b.out + j) * c.out + k] / divisor_of(p, i, j, k);
    }
  }
  dx[at] = sum;
}

// Links every window to the element it chose: `heads` begins a list per element, `next` continues it.
__global__ void __launch_bounds__(kThreads)
    link_kernel(const __grid_constant__ PoolScatter p, const int* index, int* heads, int* next) {
  begin();
  const int window = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (window >= p.windows) return;
  for (long long plane = blockIdx.y; plane < p.planes; plane += gridDim.y) {
    const int at = index[plane * p.windows + window];
    if (at < 0 || at >= p.volume) continue;
    next[plane * p.windows + window] = atomicExch(heads + plane * p.volume + at, window);
  }
}

// Σ dy over a list. It has no order: the smallest window that is not yet added comes next.
__device__ __forceinline__ float sum_in_order(const float* dy, const int* next, int head) {
  float sum = 0;
  for (int last = -1;;) {
    int least = 0x7fffffff;
    for (int w = head; w >= 0; w = next[w]) {
      if (w > last && w < least) least = w;
    }
    if (least == 0x7fffffff) return sum;
    sum += dy[least];
    last = least;
  }
}

__global__ void __launch_bounds__(kThreads) add_links_kernel(const __grid_constant__ PoolScatter p, const float* dy,
                                                             const int* heads, const int* next, float* dx) {
  begin();
  const int at = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (at >= p.volume) return;
  for (long long plane = blockIdx.y; plane < p.planes; plane += gridDim.y) {
    const long long first = plane * p.windows;
    const int head = heads[plane * p.volume + at];
    float sum = head >= 0 ? dy[first + head] : 0.f;
    if (head >= 0 && next[first + head] >= 0) sum = sum_in_order(dy + first, next + first, head);
    dx[plane * p.volume + at] = sum;
  }
}

__global__ void __launch_bounds__(kThreads)
    gather_kernel(const __grid_constant__ PoolScatter p, const float* x, const int* index, float* y) {
  begin();
  const long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= p.planes * p.windows) return;
  const int at = index[i];
  y[i] = at >= 0 && at < p.volume ? x[i / p.windows * p.volume + at] : NAN;
}

// Windows [first, last] that may contain an element; with dilation not all of them do.
__device__ __forceinline__ int2 windows_around(const PoolAxis& a, int at) {
  const int reach = at + a.padding - (a.kernel - 1) * a.dilation;
  const int first = reach > 0 ? (reach + a.stride - 1) / a.stride : 0;
  return make_int2(first, min((at + a.padding) / a.stride, a.out - 1));
}

__global__ void __launch_bounds__(kThreads) max_backward_kernel(const __grid_constant__ Pool p, const float* dy,
                                                                const int* index, float* dx, long long elements) {
  begin();
  const long long number = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (number >= elements) return;
  const PoolAxis &b = p.axes[1], &c = p.axes[2];
  const int volume = b.in * c.in, place = static_cast<int>(number % volume);
  const long long windows = number / volume * b.out * c.out;
  const int row = place / c.in, column = place % c.in;
  const int2 rows = windows_around(b, row), columns = windows_around(c, column);
  float sum = 0;
  for (int h = rows.x; h <= rows.y; ++h) {
    if ((row + b.padding - h * b.stride) % b.dilation != 0) continue;
    for (int w = columns.x; w <= columns.y; ++w) {
      if ((column + c.padding - w * c.stride) % c.dilation != 0) continue;
      const long long from = windows + h * c.out + w;
      if (index[from] == place) sum += dy[from];
    }
  }
  dx[number] = sum;
}

template <class Use>
cudaError_t with_kind(PoolKind kind, Use&& use) {
  switch (kind) {
    case PoolKind::max: return use(pool_kernel<PoolKind::max>);
    case PoolKind::average: return use(pool_kernel<PoolKind::average>);
    case PoolKind::lp: return use(pool_kernel<PoolKind::lp>);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

cudaError_t load_pool(PoolKind kind) {
  return with_kind(kind, [](auto* kernel) { return load(kernel); });
}

cudaError_t launch_pool(PoolKind kind, const Pool& p, const float* x, float* y, int* index, cudaStream_t stream) {
  const long long outputs = p.planes * p.axes[0].out * p.axes[1].out * p.axes[2].out;
  const LaunchShape shape{dim3(blocks_for(outputs, kThreads)), dim3(kThreads)};
  return with_kind(kind, [&](auto* kernel) { return launch(kernel, shape, stream, p, x, y, index, outputs); });
}

cudaError_t load_average_backward() { return load(average_backward_kernel); }

cudaError_t launch_average_backward(const Pool& p, const float* dy, float* dx, cudaStream_t stream) {
  const long long elements = p.planes * p.axes[0].in * p.axes[1].in * p.axes[2].in;
  return launch(average_backward_kernel, {dim3(blocks_for(elements, kThreads)), dim3(kThreads)}, stream, p, dy, dx,
                elements);
}

namespace {

// Positions along x, planes along y.
LaunchShape by_plane(long long positions, long long planes) {
  return {dim3(blocks_for(positions, kThreads), static_cast<unsigned>(planes < 65535 ? planes : 65535)),
          dim3(kThreads)};
}

}  // namespace

cudaError_t load_max_backward() { return load(max_backward_kernel); }

cudaError_t launch_max_backward(const Pool& p, const float* dy, const int* index, float* dx, cudaStream_t stream) {
  const long long elements = p.planes * p.axes[1].in * p.axes[2].in;
  return launch(max_backward_kernel, {dim3(blocks_for(elements, kThreads)), dim3(kThreads)}, stream, p, dy, index, dx,
                elements);
}

cudaError_t load_pool_scatter() {
  for (const cudaError_t status : {load(link_kernel), load(add_links_kernel), load(gather_kernel)}) {
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

cudaError_t launch_pool_scatter(const PoolScatter& p, const float* dy, const int* index, float* dx, int* scratch,
                                cudaStream_t stream) {
  int* next = scratch + p.planes * p.volume;
  const cudaError_t cleared =
      cudaMemsetAsync(scratch, 0xff, static_cast<size_t>(p.planes * p.volume) * sizeof(int), stream);
  if (cleared != cudaSuccess) return cleared;
  if (p.windows > 0) {
    const cudaError_t linked = launch(link_kernel, by_plane(p.windows, p.planes), stream, p, index, scratch, next);
    if (linked != cudaSuccess) return linked;
  }
  return launch(add_links_kernel, by_plane(p.volume, p.planes), stream, p, dy, scratch, next, dx);
}

cudaError_t launch_pool_gather(const PoolScatter& p, const float* x, const int* index, float* y, cudaStream_t stream) {
  return launch(gather_kernel, {dim3(blocks_for(p.planes * p.windows, kThreads)), dim3(kThreads)}, stream, p, x, index,
                y);
}

}  // namespace starling::device
