#include <type_traits>

#include "starling/kernels/cuda/device/gemm_tile.cuh"
#include "starling/kernels/cuda/device/launch.cuh"
#include "starling/kernels/cuda/device/local_conv.h"

namespace starling::device {
namespace {

// A block has one position. Samples lie last in a copy of x, so that the same pixel of eight samples is one sector of
// memory, and weights are read by 16 bytes a lane where the number of taps allows it.
constexpr int kWarps = 8, kThreads = 32 * kWarps;
constexpr int kMostTaps = 40000;  // of 4 bytes each in shared memory
constexpr int kMostSamples = 64;  // of one pass over the weights

struct Lane {
  int warp = static_cast<int>(threadIdx.x) / 32;
  int group = static_cast<int>(threadIdx.x) % 32 / 4;  // row of a left operand, column of a right one
  int place = static_cast<int>(threadIdx.x) % 4;
};

// x [n, pixels] → [pixels, samples], samples without a counterpart zero.
__global__ void __launch_bounds__(kThreads)
    samples_last_kernel(const float* x, float* to, long long pixels, int n, int samples) {
  begin();
  const long long pixel = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (pixel >= pixels) return;
  for (int s = 0; s < samples; s += 4) {
    float4 four;
    four.x = s < n ? x[s * pixels + pixel] : 0.f;
    four.y = s + 1 < n ? x[(s + 1) * pixels + pixel] : 0.f;
    four.z = s + 2 < n ? x[(s + 2) * pixels + pixel] : 0.f;
    four.w = s + 3 < n ? x[(s + 3) * pixels + pixel] : 0.f;
    *reinterpret_cast<float4*>(to + pixel * samples + s) = four;
  }
}

__global__ void __launch_bounds__(kThreads)
    samples_first_kernel(const float* from, float* x, long long pixels, int n, int samples) {
  begin();
  const long long pixel = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (pixel >= pixels) return;
  for (int s = 0; s < n; ++s) x[s * pixels + pixel] = from[pixel * samples + s];
}

__global__ void __launch_bounds__(kThreads) zero_kernel(float4* to, long long count) {
  begin();
  const long long at = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (at < count) to[at] = make_float4(0, 0, 0, 0);
}

// Pixel of every tap of a position's window; -1 in the padding and behind the last tap.
__device__ __forceinline__ void find_pixels(const LocalConv& v, int position, int* pixels, int count) {
  const int top = position / v.ow * v.stride_h - v.top, left = position % v.ow * v.stride_w - v.left;
  const int taps = v.taps();
  for (int tap = static_cast<int>(threadIdx.x); tap < count; tap += kThreads) {
    const int channel = tap / (v.kh * v.kw), rest = tap % (v.kh * v.kw);
    const int row = top + rest / v.kw * v.step_h, column = left + rest % v.kw * v.step_w;
    const bool inside = tap < taps && row >= 0 && row < v.h && column >= 0 && column < v.w;
    pixels[tap] = inside ? (channel * v.h + row) * v.w + column : -1;
  }
}

__device__ __forceinline__ float at_pixel(const float* x, int pixel, int samples, int sample) {
  return pixel < 0 ? 0.f : __ldg(x + static_cast<long long>(pixel) * samples + sample);
}

// Four weights of a row from a tap on; zeros outside.
template <bool Whole>
__device__ __forceinline__ float4 four_weights(const float* row, bool exists, int tap, int taps) {
  if (Whole) return exists && tap < taps ? __ldcs(reinterpret_cast<const float4*>(row + tap)) : make_float4(0, 0, 0, 0);
  float4 four;
  four.x = exists && tap < taps ? __ldcs(row + tap) : 0.f;
  four.y = exists && tap + 1 < taps ? __ldcs(row + tap + 1) : 0.f;
  four.z = exists && tap + 2 < taps ? __ldcs(row + tap + 2) : 0.f;
  four.w = exists && tap + 3 < taps ? __ldcs(row + tap + 3) : 0.f;
  return four;
}

// y [out, samples] of a position = weights [out, taps] · windows [taps, samples]: warps share the taps. The products of
// a step of 16 taps take them in the order in which a lane's 16 bytes hold them, on both sides.
template <int M, int N, bool Whole>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const __grid_constant__ LocalConv v, const float* x, int samples, const float* weight,
                   const float* bias, float* y, int first, int n) {
  extern __shared__ int pixels[];
  begin();
  const Lane lane;
  const int position = static_cast<int>(blockIdx.x), taps = v.taps(), steps = (taps + 15) / 16;
  const int out0 = static_cast<int>(blockIdx.y) * 16 * M;
  find_pixels(v, position, pixels, steps * 16);
  __syncthreads();
  const float* rows = weight + (static_cast<long long>(position) * v.out + out0) * taps;
  float sums[M][N][4] = {};
  for (int step = lane.warp; step < steps; step += kWarps) {
    const int tap = step * 16 + 4 * lane.place;
    float4 low[M], high[M];
#pragma unroll
    for (int m = 0; m < M; ++m) {
      const int row = m * 16 + lane.group;
      low[m] = four_weights<Whole>(rows + static_cast<long long>(row) * taps, out0 + row < v.out, tap, taps);
      high[m] = four_weights<Whole>(rows + static_cast<long long>(row + 8) * taps, out0 + row + 8 < v.out, tap, taps);
    }
    const int4 from = *reinterpret_cast<const int4*>(pixels + tap);
    unsigned b[2][N][2];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const int sample = i * 8 + lane.group;
      b[0][i][0] = to_tf32(at_pixel(x, from.x, samples, sample));
      b[0][i][1] = to_tf32(at_pixel(x, from.y, samples, sample));
      b[1][i][0] = to_tf32(at_pixel(x, from.z, samples, sample));
      b[1][i][1] = to_tf32(at_pixel(x, from.w, samples, sample));
    }
#pragma unroll
    for (int m = 0; m < M; ++m) {
      const unsigned a[2][4] = {{to_tf32(low[m].x), to_tf32(high[m].x), to_tf32(low[m].y), to_tf32(high[m].y)},
                                {to_tf32(low[m].z), to_tf32(high[m].z), to_tf32(low[m].w), to_tf32(high[m].w)}};
#pragma unroll
      for (int i = 0; i < N; ++i) {
        mma(sums[m][i], a[0], b[0][i]);
        mma(sums[m][i], a[1], b[1][i]);
      }
    }
  }
  __syncthreads();
  float* all = reinterpret_cast<float*>(pixels);  // [warps, 16 M, 8 N]
  float* own = all + lane.warp * 128 * M * N;
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
#pragma unroll
      for (int k = 0; k < 4; ++k)
        own[(m * 16 + lane.group + k / 2 * 8) * 8 * N + i * 8 + 2 * lane.place + k % 2] = sums[m][i][k];
    }
  }
  __syncthreads();
  for (int at = static_cast<int>(threadIdx.x); at < 128 * M * N; at += kThreads) {
    const int o = out0 + at / (8 * N), sample = at % (8 * N);
    if (o >= v.out || sample >= n) continue;
    const int place = o * v.positions() + position;
    float total = bias ? bias[place] : 0.f;
    for (int w = 0; w < kWarps; ++w) total += all[w * 128 * M * N + at];
    y[static_cast<long long>(first + sample) * v.out * v.positions() + place] = total;
  }
}

// dy of a position as [out, samples] in shared memory, zeros where there is none.
__device__ __forceinline__ void load_slopes(const LocalConv& v, const float* dy, int position, int out0, int outs,
                                            int samples, int line, int first, int n, float* slopes) {
  for (int at = static_cast<int>(threadIdx.x); at < outs * samples; at += kThreads) {
    const int o = at / samples, sample = at % samples;
    const bool exists = out0 + o < v.out && sample < n;
    slopes[o * line + sample] =
        exists ? dy[(static_cast<long long>(first + sample) * v.out + out0 + o) * v.positions() + position] : 0.f;
  }
}

// dweight [out, taps] of a position = dy [out, samples] · windows [samples, taps]. Two products of 16 taps in all have
// their columns such that a lane's results are four neighbours, which it stores at once.
template <int M, int N, bool Whole>
__global__ void __launch_bounds__(kThreads)
    weight_kernel(const __grid_constant__ LocalConv v, const float* x, int samples, const float* dy, float* dweight,
                  int first, int n, int adds) {
  extern __shared__ int pixels[];
  begin();
  const Lane lane;
  const int position = static_cast<int>(blockIdx.x), taps = v.taps(), steps = (taps + 15) / 16;
  const int out0 = static_cast<int>(blockIdx.y) * 16 * M;
  find_pixels(v, position, pixels, steps * 16);
  constexpr int kLine = 8 * N + 4;
  float* slopes = reinterpret_cast<float*>(pixels + steps * 16);
  load_slopes(v, dy, position, out0, 16 * M, 8 * N, kLine, first, n, slopes);
  __syncthreads();
  unsigned a[M][N][4];  // a lane's two neighbours among the samples are the two columns that a product asks of it
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float* at = slopes + (m * 16 + lane.group) * kLine + i * 8 + 2 * lane.place;
      a[m][i][0] = to_tf32(at[0]), a[m][i][2] = to_tf32(at[1]);
      a[m][i][1] = to_tf32(at[8 * kLine]), a[m][i][3] = to_tf32(at[8 * kLine + 1]);
    }
  }
  float* rows = dweight + (static_cast<long long>(position) * v.out + out0) * taps;
  for (int step = lane.warp; step < steps; step += kWarps) {
    unsigned b[2][N][2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int pixel = pixels[step * 16 + lane.group / 2 * 4 + 2 * half + lane.group % 2];
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float2 two = pixel < 0 ? make_float2(0, 0)
                                     : __ldg(reinterpret_cast<const float2*>(
                                           x + static_cast<long long>(pixel) * samples + i * 8 + 2 * lane.place));
        b[half][i][0] = to_tf32(two.x), b[half][i][1] = to_tf32(two.y);
      }
    }
    const int tap = step * 16 + 4 * lane.place;
#pragma unroll
    for (int m = 0; m < M; ++m) {
      float sums[2][4] = {};
#pragma unroll
      for (int i = 0; i < N; ++i) {
        mma(sums[0], a[m][i], b[0][i]);
        mma(sums[1], a[m][i], b[1][i]);
      }
#pragma unroll
      for (int low = 0; low < 4; low += 2) {
        const int row = m * 16 + lane.group + 4 * low;
        if (out0 + row >= v.out) continue;
        float* to = rows + static_cast<long long>(row) * taps + tap;
        float four[4] = {sums[0][low], sums[0][low + 1], sums[1][low], sums[1][low + 1]};
        if (adds) {
#pragma unroll
          for (int k = 0; k < 4; ++k) four[k] += tap + k < taps ? to[k] : 0.f;
        }
        if (Whole && tap < taps) __stcs(reinterpret_cast<float4*>(to), make_float4(four[0], four[1], four[2], four[3]));
        if (!Whole) {
#pragma unroll
          for (int k = 0; k < 4; ++k) {
            if (tap + k < taps) to[k] = four[k];
          }
        }
      }
    }
  }
}

// dwindows [samples, taps] of a position = dy [samples, out] · weights [out, taps], added to the pixels. A lane's 16
// bytes of weights are a column in each of four products of eight taps.
template <int N, bool Whole>
__global__ void __launch_bounds__(kThreads)
    input_kernel(const __grid_constant__ LocalConv v, const float* dy, const float* weight, float* dx, int samples,
                 int first, int n) {
  extern __shared__ int pixels[];
  begin();
  constexpr int kLine = 16 * N + 8;
  const Lane lane;
  const int position = static_cast<int>(blockIdx.x), taps = v.taps(), steps = (taps + 31) / 32;
  const int outs = (v.out + 7) / 8 * 8;
  find_pixels(v, position, pixels, steps * 32);
  float* slopes = reinterpret_cast<float*>(pixels + steps * 32);
  load_slopes(v, dy, position, 0, outs, 16 * N, kLine, first, n, slopes);
  __syncthreads();
  const float* rows = weight + static_cast<long long>(position) * v.out * taps;
  for (int step = lane.warp; step < steps; step += kWarps) {
    const int tap = step * 32 + 4 * lane.group;
    float sums[N][4][4] = {};
#pragma unroll 4
    for (int o = 0; o < outs; o += 8) {
      const int row = o + lane.place;
      const float4 low = four_weights<Whole>(rows + static_cast<long long>(row) * taps, row < v.out, tap, taps);
      const float4 high =
          four_weights<Whole>(rows + static_cast<long long>(row + 4) * taps, row + 4 < v.out, tap, taps);
      const unsigned b[4][2] = {{to_tf32(low.x), to_tf32(high.x)},
                                {to_tf32(low.y), to_tf32(high.y)},
                                {to_tf32(low.z), to_tf32(high.z)},
                                {to_tf32(low.w), to_tf32(high.w)}};
#pragma unroll
      for (int i = 0; i < N; ++i) {
        const float* at = slopes + row * kLine + i * 16 + lane.group;
        const unsigned a[4] = {to_tf32(at[0]), to_tf32(at[8]), to_tf32(at[4 * kLine]), to_tf32(at[4 * kLine + 8])};
#pragma unroll
        for (int j = 0; j < 4; ++j) mma(sums[i][j], a, b[j]);
      }
    }
#pragma unroll
    for (int j = 0; j < 4; ++j) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        const int pixel = pixels[step * 32 + 4 * (2 * lane.place + k % 2) + j];
        if (pixel < 0) continue;
#pragma unroll
        for (int i = 0; i < N; ++i) {
          const int sample = i * 16 + lane.group + k / 2 * 8;
          if (sample < samples) atomicAdd(dx + static_cast<long long>(pixel) * samples + sample, sums[i][j][k]);
        }
      }
    }
  }
}

unsigned rows_of(int outs, int m) { return static_cast<unsigned>((outs + 16 * m - 1) / (16 * m)); }

template <class Kernel>
cudaError_t allow_shared(Kernel kernel) {
  const cudaError_t status = cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 200 * 1024);
  return status != cudaSuccess ? status : load(kernel);
}

template <int K>
using Count = std::integral_constant<int, K>;

// Calls f with the compile-time counts of products along the outputs and the samples.
template <class F>
cudaError_t by_counts(int outs, int samples, F f) {
  const int m = (outs + 15) / 16;
  if (samples <= 8)
    return m == 1   ? f(Count<1>{}, Count<1>{})
           : m == 2 ? f(Count<2>{}, Count<1>{})
           : m == 3 ? f(Count<3>{}, Count<1>{})
                    : f(Count<4>{}, Count<1>{});
  if (samples <= 16)
    return m == 1   ? f(Count<1>{}, Count<2>{})
           : m == 2 ? f(Count<2>{}, Count<2>{})
           : m == 3 ? f(Count<3>{}, Count<2>{})
                    : f(Count<4>{}, Count<2>{});
  if (samples <= 32)
    return m == 1 ? f(Count<1>{}, Count<4>{}) : m == 2 ? f(Count<2>{}, Count<4>{}) : f(Count<3>{}, Count<4>{});
  return m == 1 ? f(Count<1>{}, Count<8>{}) : f(Count<2>{}, Count<8>{});
}

template <class F>
cudaError_t by_samples(int samples, F f) {
  return samples <= 16 ? f(Count<1>{}) : samples <= 32 ? f(Count<2>{}) : f(Count<4>{});
}

unsigned forward_shared(const LocalConv& v, int m, int n) {
  const unsigned table = static_cast<unsigned>((v.taps() + 15) / 16 * 16) * 4;
  const unsigned sums = static_cast<unsigned>(kWarps * 128 * m * n) * 4;
  return table > sums ? table : sums;
}
unsigned weight_shared(const LocalConv& v, int m, int n) {
  return static_cast<unsigned>((v.taps() + 15) / 16 * 16 + 16 * m * (8 * n + 4)) * 4;
}
unsigned input_shared(const LocalConv& v, int n) {
  return static_cast<unsigned>((v.taps() + 31) / 32 * 32 + (v.out + 7) / 8 * 8 * (16 * n + 8)) * 4;
}

// Samples of a chunk in memory: 8, 16, 32 or 64 of them.
int room_for(int samples) { return samples <= 8 ? 8 : samples <= 16 ? 16 : samples <= 32 ? 32 : 64; }

cudaError_t samples_last(const LocalConv& v, const float* x, int first, int n, int samples, void* to,
                         cudaStream_t stream) {
  return launch(samples_last_kernel, {dim3(blocks_for(v.pixels(), kThreads)), dim3(kThreads)}, stream,
                x + first * v.pixels(), static_cast<float*>(to), v.pixels(), n, samples);
}

// Calls f(first sample, number of samples, room for them) for chunks of the batch.
template <class F>
cudaError_t by_chunks(const LocalConv& v, F f) {
  for (int first = 0; first < v.n; first += kMostSamples) {
    const int n = v.n - first < kMostSamples ? v.n - first : kMostSamples;
    const cudaError_t status = f(first, n, room_for(n));
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

}  // namespace

bool local_conv_fits(const LocalConv& v) {
  return v.taps() <= kMostTaps && v.out <= 512 && weight_shared(v, 4, 8) <= 200 * 1024 &&
         input_shared(v, v.n <= 16   ? 1
                         : v.n <= 32 ? 2
                                     : 4) <= 200 * 1024;
}

unsigned long long local_conv_scratch(const LocalConv& v) {
  return static_cast<unsigned long long>(v.pixels()) * room_for(v.n < kMostSamples ? v.n : kMostSamples) * 4;
}

cudaError_t load_local_conv() {
  for (const cudaError_t status : {load(samples_last_kernel), load(samples_first_kernel), load(zero_kernel)}) {
    if (status != cudaSuccess) return status;
  }
  for (const int samples : {8, 16, 32, 64}) {
    for (const int outs : {16, 32, 48, 64}) {
      const cudaError_t status = by_counts(outs, samples, [](auto m, auto n) {
        constexpr int M = decltype(m)::value, N = decltype(n)::value;
        for (const cudaError_t one :
             {allow_shared(forward_kernel<M, N, true>), allow_shared(forward_kernel<M, N, false>),
              allow_shared(weight_kernel<M, N, true>), allow_shared(weight_kernel<M, N, false>)}) {
          if (one != cudaSuccess) return one;
        }
        return cudaSuccess;
      });
      if (status != cudaSuccess) return status;
    }
    const cudaError_t status = by_samples(samples, [](auto n) {
      const cudaError_t one = allow_shared(input_kernel<n.value, true>);
      return one != cudaSuccess ? one : allow_shared(input_kernel<n.value, false>);
    });
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

cudaError_t launch_local_conv(const LocalConv& v, const float* x, const float* weight, const float* bias, float* y,
                              void* scratch, cudaStream_t stream) {
  return by_chunks(v, [&](int first, int n, int samples) {
    const cudaError_t turned = samples_last(v, x, first, n, samples, scratch, stream);
    if (turned != cudaSuccess) return turned;
    return by_counts(v.out, samples, [&](auto m, auto tiles) {
      constexpr int M = decltype(m)::value, N = decltype(tiles)::value;
      const LaunchShape shape{dim3(static_cast<unsigned>(v.positions()), rows_of(v.out, M)), dim3(kThreads),
                              forward_shared(v, M, N)};
      const auto kernel = v.taps() % 4 == 0 ? forward_kernel<M, N, true> : forward_kernel<M, N, false>;
      return launch(kernel, shape, stream, v, static_cast<const float*>(scratch), samples, weight, bias, y, first, n);
    });
  });
}

cudaError_t launch_local_conv_weight(const LocalConv& v, const float* dy, const float* x, float* dweight, void* scratch,
                                     cudaStream_t stream) {
  return by_chunks(v, [&](int first, int n, int samples) {
    const cudaError_t turned = samples_last(v, x, first, n, samples, scratch, stream);
    if (turned != cudaSuccess) return turned;
    return by_counts(v.out, samples, [&](auto m, auto tiles) {
      constexpr int M = decltype(m)::value, N = decltype(tiles)::value;
      const LaunchShape shape{dim3(static_cast<unsigned>(v.positions()), rows_of(v.out, M)), dim3(kThreads),
                              weight_shared(v, M, N)};
      const auto kernel = v.taps() % 4 == 0 ? weight_kernel<M, N, true> : weight_kernel<M, N, false>;
      return launch(kernel, shape, stream, v, static_cast<const float*>(scratch), samples, dy, dweight, first, n,
                    first > 0 ? 1 : 0);
    });
  });
}

cudaError_t launch_local_conv_input(const LocalConv& v, const float* dy, const float* weight, float* dx, void* scratch,
                                    cudaStream_t stream) {
  return by_chunks(v, [&](int first, int n, int samples) {
    const long long fours = v.pixels() * samples / 4;
    cudaError_t status = launch(zero_kernel, {dim3(blocks_for(fours, kThreads)), dim3(kThreads)}, stream,
                                static_cast<float4*>(scratch), fours);
    if (status != cudaSuccess) return status;
    status = by_samples(samples, [&](auto tiles) {
      constexpr int N = decltype(tiles)::value;
      const LaunchShape shape{dim3(static_cast<unsigned>(v.positions())), dim3(kThreads), input_shared(v, N)};
      const auto kernel = v.taps() % 4 == 0 ? input_kernel<N, true> : input_kernel<N, false>;
      return launch(kernel, shape, stream, v, dy, weight, static_cast<float*>(scratch), samples, first, n);
    });
    if (status != cudaSuccess) return status;
    return launch(samples_first_kernel, {dim3(blocks_for(v.pixels(), kThreads)), dim3(kThreads)}, stream,
                  static_cast<const float*>(scratch), dx + first * v.pixels(), v.pixels(), n, samples);
  });
}

}  // namespace starling::device
