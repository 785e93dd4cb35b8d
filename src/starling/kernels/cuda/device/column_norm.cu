#include "starling/kernels/cuda/device/column_norm.h"
#include "starling/kernels/cuda/device/column_parts.cuh"
#include "starling/kernels/cuda/device/real.cuh"

namespace starling::device {
namespace {

constexpr int kThreads = 256;
constexpr int kBlocks = 132 * 8;

// A block takes `across` packs of 8 channels and kThreads / across rows at a time.
struct Grid {
  int across;
  int wide;   // blocks along the channels
  int parts;  // blocks along the rows
};
Grid grid_of(const ColumnNorm& p) {
  int across = 1;
  while (across < 32 && p.channels / 8 % (2 * across) == 0) across *= 2;
  const int wide = p.channels / 8 / across;
  const long long down = (p.rows + kThreads / across - 1) / (kThreads / across);
  long long parts = (kBlocks + wide - 1) / wide;
  parts = parts > (down + 3) / 4 ? (down + 3) / 4 : parts;
  return {across, wide, static_cast<int>(parts < 1 ? 1 : parts)};
}

// First row of a thread, the one behind its last, and from one to the next. A block's rows are neighbours.
struct ThreadRows {
  long long row, end;
  int more, channel;
};
// Passes begin where the one before ended, which the cache still holds: the first pass over a tensor, which a
// kernel wrote from its first row on, goes `backwards`, the second forwards.
__device__ __forceinline__ ThreadRows rows_of(const ColumnNorm& p, int across, bool backwards = false) {
  const int down = kThreads / across;
  const int pack = static_cast<int>(blockIdx.x) * across + static_cast<int>(threadIdx.x) % across;
  const long long part = backwards ? gridDim.y - 1 - blockIdx.y : blockIdx.y;
  const long long together = static_cast<long long>(gridDim.y) * down, mine = (p.rows + together - 1) / together * down;
  const long long end = (part + 1) * mine;
  return {part * mine + threadIdx.x / across, end < p.rows ? end : p.rows, down, pack * 8};
}

// Eight neighbours as they are loaded. Where all images are bf16 that begin at multiples of 16 bytes (kFast) a load is
// one access without a branch, so that several are in flight; else any kind.
template <bool kFast>
struct Loaded;
template <>
struct Loaded<true> {
  uint4 raw;
  __device__ static Loaded from(const Reals& x, long long i) {
    return {*reinterpret_cast<const uint4*>(static_cast<const unsigned short*>(x.data) + i)};
  }
  __device__ Eight eight() const {
    return {{low_bf16(raw.x), high_bf16(raw.x), low_bf16(raw.y), high_bf16(raw.y), low_bf16(raw.z), high_bf16(raw.z),
             low_bf16(raw.w), high_bf16(raw.w)}};
  }
};
template <>
struct Loaded<false> {
  Eight value;
  __device__ static Loaded from(const Reals& x, long long i) { return {load_eight(x, i)}; }
  __device__ Eight eight() const { return value; }
};
template <bool kFast>
__device__ __forceinline__ void store(const RealsOut& to, long long i, const Eight& v) {
  if constexpr (kFast) {
    *reinterpret_cast<uint4*>(static_cast<unsigned short*>(to.data) + i) =
        make_uint4(pack_bf16(v.at[0], v.at[1]), pack_bf16(v.at[2], v.at[3]), pack_bf16(v.at[4], v.at[5]),
                   pack_bf16(v.at[6], v.at[7]));
  } else {
    store_eight(to, i, v);
  }
}

// A thread's packs: loads `kAtOnce` of them before it uses the first.
template <int kAtOnce, class Load, class Use>
__device__ __forceinline__ void each_pack(const ThreadRows& at, int channels, Load load, Use use) {
  const auto place = [&](long long row) { return row * channels + at.channel; };
  long long row = at.row;
  for (; row + (kAtOnce - 1) * at.more < at.end; row += kAtOnce * at.more) {
    decltype(load(row)) loaded[kAtOnce];
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) loaded[u] = load(place(row + u * at.more));
#pragma unroll
    for (int u = 0; u < kAtOnce; ++u) use(loaded[u], place(row + u * at.more));
  }
  for (; row < at.end; row += at.more) use(load(place(row)), place(row));
}

// Sums of a block's threads for its channels, into parts [parts, 2, channels].
__device__ __forceinline__ void write_parts(const Eight& a, const Eight& b, int across, int channels, float* parts) {
  __shared__ float shared[kThreads][17];
#pragma unroll
  for (int k = 0; k < 8; ++k) shared[threadIdx.x][k] = a.at[k], shared[threadIdx.x][8 + k] = b.at[k];
  __syncthreads();
  const int j = static_cast<int>(threadIdx.x);
  if (j >= across * 8) return;
  float first = 0, second = 0;
  for (int t = j / 8; t < kThreads; t += across) first += shared[t][j % 8], second += shared[t][8 + j % 8];
  const int channel = static_cast<int>(blockIdx.x) * across * 8 + j;
  parts[2ll * blockIdx.y * channels + channel] = first;
  parts[(2ll * blockIdx.y + 1) * channels + channel] = second;
}

// Sums and sums of squares of x less its first row, so that large means lose no digits.
template <bool kFast>
__global__ void __launch_bounds__(kThreads, kFast ? 4 : 3)
    moments_kernel(const __grid_constant__ ColumnNorm p, Reals x, int across, float* parts) {
  begin();
  const ThreadRows at = rows_of(p, across, true);
  const Eight base = load_eight(x, at.channel);
  Eight sum{}, squares{};
  const auto load = [&](long long i) { return Loaded<kFast>::from(x, i); };
  each_pack<kFast ? 4 : 2>(at, p.channels, load, [&](const auto& loaded, long long) {
    const Eight v = loaded.eight();
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const float d = v.at[k] - base.at[k];
      sum.at[k] += d;
      squares.at[k] += d * d;
    }
  });
  write_parts(sum, squares, across, p.channels, parts);
}

__global__ void __launch_bounds__(1024) statistics_kernel(const __grid_constant__ ColumnNorm p, Reals x,
                                                          const float* parts, int count, float* mean, float* var) {
  begin();
  __shared__ float shared[32][33];
  const int channel = static_cast<int>(blockIdx.x) * 32 + static_cast<int>(threadIdx.x);
  const float sum = sum_of_parts(parts, count, p.channels, channel, 0, shared);
  const float squares = sum_of_parts(parts, count, p.channels, channel, 1, shared);
  if (threadIdx.y > 0 || channel >= p.channels) return;
  const float n = static_cast<float>(p.rows);
  mean[channel] = load_real(x, channel) + sum / n;
  var[channel] = fmaxf((squares - sum * (sum / n)) / n, 0.f);
}

template <bool kFast>
__global__ void __launch_bounds__(kThreads, kFast ? 4 : 3)
    forward_kernel(const __grid_constant__ ColumnNorm p, const __grid_constant__ ColumnNormForward f, int across) {
  begin();
  const ThreadRows at = rows_of(p, across);
  Eight scale, shift;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const int c = at.channel + k;
    scale.at[k] = (f.weight ? f.weight[c] : 1.f) / sqrtf(f.var[c] + p.eps);
    shift.at[k] = (f.bias ? f.bias[c] : 0.f) - f.mean[c] * scale.at[k];
  }
  const auto finish = [&](Eight v, const Eight& more, long long i) {
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      const float y = v.at[k] * scale.at[k] + shift.at[k] + more.at[k];
      v.at[k] = f.relu && y < 0 ? 0.f : y;
    }
    store<kFast>(f.y, i, v);
  };
  if (!f.residual.data) {
    const auto load = [&](long long i) { return Loaded<kFast>::from(f.x, i); };
    each_pack<kFast ? 4 : 2>(at, p.channels, load, [&](const auto& x, long long i) { finish(x.eight(), Eight{}, i); });
    return;
  }
  struct Both {
    Loaded<kFast> x, residual;
  };
  const auto load = [&](long long i) { return Both{Loaded<kFast>::from(f.x, i), Loaded<kFast>::from(f.residual, i)}; };
  each_pack<kFast ? 2 : 1>(at, p.channels, load,
                           [&](const Both& both, long long i) { finish(both.x.eight(), both.residual.eight(), i); });
}

// Where the gradient's relu takes its mask from: there is no relu, its results, or x, of which they are made again.
enum class Mask { none, result, again };

// Packs that a pass of the gradient reads.
template <bool kFast, Mask kMask>
struct Slopes {
  Loaded<kFast> dy, x;
  __device__ static Slopes from(const ColumnNormBackward& b, long long i) {
    return {Loaded<kFast>::from(b.dy, i), Loaded<kFast>::from(b.x, i)};
  }
};
template <bool kFast>
struct Slopes<kFast, Mask::result> {
  Loaded<kFast> dy, x, y;
  __device__ static Slopes from(const ColumnNormBackward& b, long long i) {
    return {Loaded<kFast>::from(b.dy, i), Loaded<kFast>::from(b.x, i), Loaded<kFast>::from(b.y, i)};
  }
};

// Factor and offset by which y was made of x, as the forward pass has them.
struct Forth {
  Eight scale, shift;
};
template <Mask kMask>
__device__ __forceinline__ Forth forth_of(const ColumnNorm& p, const ColumnNormBackward& b, int channel) {
  Forth made{};
  if (kMask != Mask::again) return made;
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const int c = channel + k;
    made.scale.at[k] = b.weight[c] / sqrtf(b.var[c] + p.eps);
    made.shift.at[k] = b.bias[c] - b.mean[c] * made.scale.at[k];
  }
  return made;
}

// dy through the relu.
template <bool kFast, Mask kMask>
__device__ __forceinline__ Eight slope_of(const Slopes<kFast, kMask>& loaded, const Eight& x, const Forth& forth) {
  Eight g = loaded.dy.eight();
  if constexpr (kMask == Mask::again) {
#pragma unroll
    for (int k = 0; k < 8; ++k) g.at[k] = x.at[k] * forth.scale.at[k] + forth.shift.at[k] > 0 ? g.at[k] : 0.f;
  }
  if constexpr (kMask == Mask::result) {
    const Eight y = loaded.y.eight();
#pragma unroll
    for (int k = 0; k < 8; ++k) g.at[k] = y.at[k] > 0 ? g.at[k] : 0.f;
  }
  return g;
}

// Σ g and Σ g · (x - mean).
template <bool kFast, Mask kMask>
__global__ void __launch_bounds__(kThreads, kFast&& kMask != Mask::again ? 4 : 3)
    slopes_kernel(const __grid_constant__ ColumnNorm p, const __grid_constant__ ColumnNormBackward b, int across,
                  float* parts) {
  begin();
  const ThreadRows at = rows_of(p, across, true);
  Eight sum{}, dot{}, mean;
#pragma unroll
  for (int k = 0; k < 8; ++k) mean.at[k] = b.mean[at.channel + k];
  const Forth forth = forth_of<kMask>(p, b, at.channel);
  const auto load = [&](long long i) { return Slopes<kFast, kMask>::from(b, i); };
  each_pack<kFast ? 2 : 1>(at, p.channels, load, [&](const Slopes<kFast, kMask>& loaded, long long) {
    const Eight x = loaded.x.eight(), g = slope_of(loaded, x, forth);
#pragma unroll
    for (int k = 0; k < 8; ++k) {
      sum.at[k] += g.at[k];
      dot.at[k] += g.at[k] * (x.at[k] - mean.at[k]);
    }
  });
  write_parts(sum, dot, across, p.channels, parts);
}

// Both sums [2, channels], also as gradients of bias and weight.
__global__ void __launch_bounds__(1024)
    slope_sums_kernel(const __grid_constant__ ColumnNorm p, const __grid_constant__ ColumnNormBackward b,
                      const float* parts, int count, float* sums) {
  begin();
  __shared__ float shared[32][33];
  const int channel = static_cast<int>(blockIdx.x) * 32 + static_cast<int>(threadIdx.x);
  const float sum = sum_of_parts(parts, count, p.channels, channel, 0, shared);
  const float dot = sum_of_parts(parts, count, p.channels, channel, 1, shared);
  if (threadIdx.y > 0 || channel >= p.channels) return;
  sums[channel] = sum;
  sums[p.channels + channel] = dot;
  if (b.dbias) b.dbias[channel] = sum;
  if (b.dweight) b.dweight[channel] = dot / sqrtf(b.var[channel] + p.eps);
}

template <bool kFast, Mask kMask>
__global__ void __launch_bounds__(kThreads, kFast&& kMask != Mask::again ? 4 : 3)
    backward_kernel(const __grid_constant__ ColumnNorm p, const __grid_constant__ ColumnNormBackward b, int across,
                    const float* sums) {
  begin();
  const ThreadRows at = rows_of(p, across);
  const float n = static_cast<float>(p.rows);
  Eight scale, from_x, shift;  // dx = scale · g + from_x · x + shift
#pragma unroll
  for (int k = 0; k < 8; ++k) {
    const int c = at.channel + k;
    const float inverse = 1.f / (b.var[c] + p.eps), mean = b.mean[c];
    scale.at[k] = (b.weight ? b.weight[c] : 1.f) * sqrtf(inverse);
    from_x.at[k] = -scale.at[k] * sums[p.channels + c] * inverse / n;
    shift.at[k] = -scale.at[k] * sums[c] / n - from_x.at[k] * mean;
  }
  const Forth forth = forth_of<kMask>(p, b, at.channel);
  const auto load = [&](long long i) { return Slopes<kFast, kMask>::from(b, i); };
  each_pack<kFast ? 2 : 1>(at, p.channels, load, [&](const Slopes<kFast, kMask>& loaded, long long i) {
    const Eight x = loaded.x.eight();
    Eight g = slope_of(loaded, x, forth);
#pragma unroll
    for (int k = 0; k < 8; ++k) g.at[k] = scale.at[k] * g.at[k] + (from_x.at[k] * x.at[k] + shift.at[k]);
    store<kFast>(b.dx, i, g);
  });
}

template <bool kFast>
__global__ void __launch_bounds__(kThreads, kFast ? 4 : 3)
    sum_kernel(const __grid_constant__ ColumnNorm p, Reals x, int across, float* parts) {
  begin();
  const ThreadRows at = rows_of(p, across);
  Eight sum{};
  const auto load = [&](long long i) { return Loaded<kFast>::from(x, i); };
  each_pack<kFast ? 4 : 2>(at, p.channels, load, [&](const auto& loaded, long long) {
    const Eight v = loaded.eight();
#pragma unroll
    for (int k = 0; k < 8; ++k) sum.at[k] += v.at[k];
  });
  write_parts(sum, Eight{}, across, p.channels, parts);
}

__global__ void __launch_bounds__(1024)
    sum_parts_kernel(const float* parts, int count, int channels, RealsOut sum, float scale) {
  begin();
  __shared__ float shared[32][33];
  const int channel = static_cast<int>(blockIdx.x) * 32 + static_cast<int>(threadIdx.x);
  const float total = sum_of_parts(parts, count, channels, channel, 0, shared);
  if (threadIdx.y == 0 && channel < channels) store_real(sum, channel, total * scale);
}

LaunchShape rows_shape(const Grid& g) {
  return {dim3(static_cast<unsigned>(g.wide), static_cast<unsigned>(g.parts)), dim3(kThreads)};
}
bool is_fast(const void* data, Real kind) {
  return !data || (kind == Real::bf16 && reinterpret_cast<unsigned long long>(data) % 16 == 0);
}
bool is_fast(const Reals& x) { return is_fast(x.data, x.kind); }
bool is_fast(const RealsOut& x) { return is_fast(x.data, x.kind); }

LaunchShape parts_shape(const ColumnNorm& p) { return {dim3(blocks_for(p.channels, 32)), dim3(32, 32)}; }

template <Mask kMask>
cudaError_t load_slopes() {
  for (const cudaError_t status : {load(slopes_kernel<false, kMask>), load(slopes_kernel<true, kMask>),
                                   load(backward_kernel<false, kMask>), load(backward_kernel<true, kMask>)}) {
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

template <Mask kMask>
cudaError_t launch_slopes(const ColumnNorm& norm, const ColumnNormBackward& b, float* scratch, cudaStream_t stream) {
  const Grid g = grid_of(norm);
  float* sums = scratch + 2ll * g.parts * norm.channels;
  const bool reads = is_fast(b.dy) && is_fast(b.x) && (kMask != Mask::result || is_fast(b.y));
  cudaError_t status = launch(reads ? slopes_kernel<true, kMask> : slopes_kernel<false, kMask>, rows_shape(g), stream,
                              norm, b, g.across, scratch);
  if (status != cudaSuccess) return status;
  status = launch(slope_sums_kernel, parts_shape(norm), stream, norm, b, scratch, g.parts, sums);
  if (status != cudaSuccess) return status;
  return launch(reads && is_fast(b.dx) ? backward_kernel<true, kMask> : backward_kernel<false, kMask>, rows_shape(g),
                stream, norm, b, g.across, sums);
}

}  // namespace

bool takes_columns(long long rows, long long channels) {
  return rows > 0 && channels > 0 && channels % 8 == 0 && channels <= (1 << 20);
}

long long column_norm_scratch(const ColumnNorm& norm) { return 2ll * (grid_of(norm).parts + 1) * norm.channels; }

cudaError_t load_column_norm() {
  for (const cudaError_t status :
       {load(moments_kernel<false>), load(moments_kernel<true>), load(statistics_kernel), load(forward_kernel<false>),
        load(forward_kernel<true>), load_slopes<Mask::none>(), load_slopes<Mask::result>(), load_slopes<Mask::again>(),
        load(slope_sums_kernel), load(sum_kernel<false>), load(sum_kernel<true>), load(sum_parts_kernel)}) {
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

cudaError_t launch_column_norm(const ColumnNorm& norm, const ColumnNormForward& f, float* scratch,
                               cudaStream_t stream) {
  const Grid g = grid_of(norm);
  const auto moments = is_fast(f.x) ? moments_kernel<true> : moments_kernel<false>;
  cudaError_t status = launch(moments, rows_shape(g), stream, norm, f.x, g.across, scratch);
  if (status != cudaSuccess) return status;
  status = launch(statistics_kernel, parts_shape(norm), stream, norm, f.x, scratch, g.parts, f.mean, f.var);
  if (status != cudaSuccess) return status;
  const bool fast = is_fast(f.x) && is_fast(f.residual) && is_fast(f.y);
  return launch(fast ? forward_kernel<true> : forward_kernel<false>, rows_shape(g), stream, norm, f, g.across);
}

cudaError_t launch_column_norm_backward(const ColumnNorm& norm, const ColumnNormBackward& b, float* scratch,
                                        cudaStream_t stream) {
  if (b.bias) return launch_slopes<Mask::again>(norm, b, scratch, stream);
  return b.y.data ? launch_slopes<Mask::result>(norm, b, scratch, stream)
                  : launch_slopes<Mask::none>(norm, b, scratch, stream);
}

cudaError_t launch_column_sum(const ColumnNorm& shape, Reals x, RealsOut sum, float scale, float* scratch,
                              cudaStream_t stream) {
  const Grid g = grid_of(shape);
  const auto sums = is_fast(x) ? sum_kernel<true> : sum_kernel<false>;
  const cudaError_t status = launch(sums, rows_shape(g), stream, shape, x, g.across, scratch);
  if (status != cudaSuccess) return status;
  return launch(sum_parts_kernel, parts_shape(shape), stream, scratch, g.parts, shape.channels, sum, scale);
}

}  // namespace starling::device
