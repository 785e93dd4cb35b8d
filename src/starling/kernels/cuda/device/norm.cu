#include "starling/kernels/cuda/device/launch.cuh"
#include "starling/kernels/cuda/device/norm.h"

namespace starling::device {
namespace {

constexpr int kThreads = 256;

// V neighbours.
template <int V>
struct Pack {
  float at[V];
};
template <int V>
__device__ __forceinline__ Pack<V> load_pack(const float* from) {
  if constexpr (V == 4) {
    const float4 v = *reinterpret_cast<const float4*>(from);
    return {v.x, v.y, v.z, v.w};
  } else {
    return {*from};
  }
}
template <int V>
__device__ __forceinline__ void store_pack(float* to, const Pack<V>& pack) {
  if constexpr (V == 4) {
    *reinterpret_cast<float4*>(to) = make_float4(pack.at[0], pack.at[1], pack.at[2], pack.at[3]);
  } else {
    *to = pack.at[0];
  }
}

// Elements of one piece of a statistic: a multiple of 4, but for the last.
__device__ __forceinline__ int piece_size(const Norm& p) {
  const int count = p.outer * p.length;
  return ((count + p.pieces - 1) / p.pieces + 3) / 4 * 4;
}

// Elements [first, last) of a statistic that a block has.
struct Piece {
  long long stat;
  int first, last;
};
__device__ __forceinline__ Piece piece_of(const Norm& p) {
  const long long stat = blockIdx.x / p.pieces;
  const int piece = static_cast<int>(blockIdx.x % p.pieces), count = p.outer * p.length, each = piece_size(p);
  return {stat, min(piece * each, count), min((piece + 1) * each, count)};
}

// Calls f(offset, position in the segment) for the packs that a thread has.
template <int V, class F>
__device__ __forceinline__ void walk(const Norm& p, const Piece& at, F&& f) {
  const int length = p.length / V, last = at.last / V;
  const int more_outer = kThreads / length, more = kThreads % length;
  int e = at.first / V + static_cast<int>(threadIdx.x);
  int o = e / length, j = e % length;
  for (; e < last; e += kThreads) {
    f(at.stat * p.step + o * p.outer_step + j * V, j * V);
    o += more_outer;
    j += more;
    if (j >= length) j -= length, ++o;
  }
}

// Number of the first weight of a statistic, and whether it is the only one.
__device__ __forceinline__ int first_weight(const Norm& p, long long stat) {
  return static_cast<int>(stat % p.groups) * p.group_weights;
}
__device__ __forceinline__ bool one_weight(const Norm& p) { return p.group_weights == 1 && p.inside == p.length; }

// The sum over a block, in all its threads.
__device__ __forceinline__ float block_sum(float value, float* shared) {
  __syncthreads();
  value = block_reduce(value, 0.f, shared, Plus{});
  __shared__ float total;
  if (threadIdx.x == 0) total = value;
  __syncthreads();
  return total;
}

struct Moments {
  float mean, squares;  // Σ (x - mean)²
};
template <int V>
__device__ __forceinline__ Moments moments_of(const Norm& p, const Piece& at, const float* x, float* shared) {
  float sum = 0, squares = 0;
  if (p.centred) {
    walk<V>(p, at, [&](long long i, int) {
      const Pack<V> v = load_pack<V>(x + i);
#pragma unroll
      for (int k = 0; k < V; ++k) sum += v.at[k];
    });
    sum = block_sum(sum, shared);
  }
  const float mean = at.last > at.first ? sum / static_cast<float>(at.last - at.first) : 0;
  walk<V>(p, at, [&](long long i, int) {
    const Pack<V> v = load_pack<V>(x + i);
#pragma unroll
    for (int k = 0; k < V; ++k) squares += (v.at[k] - mean) * (v.at[k] - mean);
  });
  return {mean, block_sum(squares, shared)};
}

template <int V>
__global__ void __launch_bounds__(kThreads)
    moments_kernel(const __grid_constant__ Norm p, const float* x, float* scratch) {
  begin();
  __shared__ float shared[32];
  const Moments m = moments_of<V>(p, piece_of(p), x, shared);
  if (threadIdx.x > 0) return;
  scratch[2 * blockIdx.x] = m.mean;
  scratch[2 * blockIdx.x + 1] = m.squares;
}

// Moments of a statistic from those of its pieces.
__device__ __forceinline__ Moments joined(const Norm& p, long long stat, const float* scratch) {
  const int count = p.outer * p.length, each = piece_size(p);
  float n = 0, mean = 0, squares = 0;
  for (int i = 0; i < p.pieces; ++i) {
    const float more = static_cast<float>(min((i + 1) * each, count) - min(i * each, count));
    if (more <= 0) break;
    const float* at = scratch + 2 * (stat * p.pieces + i);
    const float apart = at[0] - mean, all = n + more;
    mean += apart * (more / all);
    squares += at[1] + apart * apart * (n * more / all);
    n = all;
  }
  return {mean, squares};
}

template <int V>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const __grid_constant__ Norm p, const __grid_constant__ NormForward f, const float* scratch) {
  begin();
  __shared__ float shared[32];
  const Piece at = piece_of(p);
  const Moments m = p.pieces == 1 ? moments_of<V>(p, at, f.x, shared) : joined(p, at.stat, scratch);
  const float var = m.squares / static_cast<float>(p.outer * p.length), rstd = 1.f / sqrtf(var + p.eps);
  if (threadIdx.x == 0 && at.first == 0) {
    if (f.mean) f.mean[at.stat] = m.mean;
    f.var[at.stat] = var;
  }
  const int first = first_weight(p, at.stat);
  const bool one = one_weight(p);
  const float weight = one && f.weight ? f.weight[first] : 1.f, bias = one && f.bias ? f.bias[first] : 0.f;
  walk<V>(p, at, [&](long long i, int j) {
    Pack<V> y = load_pack<V>(f.x + i), more{};
    if (f.residual) more = load_pack<V>(f.residual + i);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      float w = weight, b = bias;
      if (!one && f.weight) {
        const int number = first + (j + k) / p.inside;
        w = f.weight[number];
        b = f.bias ? f.bias[number] : 0.f;
      }
      const float v = (y.at[k] - m.mean) * rstd * w + b + more.at[k];
      y.at[k] = f.relu && v < 0 ? 0.f : v;
    }
    store_pack<V>(f.y + i, y);
  });
}

// dy, through the relu and times the weight if statistics have many.
template <int V>
__device__ __forceinline__ Pack<V> slopes_at(const Norm& p, const NormBackward& b, long long i, int j, int first,
                                             bool weighted) {
  Pack<V> g = load_pack<V>(b.dy + i);
  if (b.y) {
    const Pack<V> y = load_pack<V>(b.y + i);
#pragma unroll
    for (int k = 0; k < V; ++k) g.at[k] = y.at[k] > 0 ? g.at[k] : 0.f;
  }
  if (weighted) {
#pragma unroll
    for (int k = 0; k < V; ++k) g.at[k] *= b.weight[first + (j + k) / p.inside];
  }
  return g;
}

struct Sums {
  float sum, dot;
};
// Σ g and Σ g · x̂ of a piece.
template <int V>
__device__ __forceinline__ Sums sums_of(const Norm& p, const NormBackward& b, const Piece& at, float mean, float rstd,
                                        bool weighted, float* shared) {
  float sum = 0, dot = 0;
  const int first = first_weight(p, at.stat);
  walk<V>(p, at, [&](long long i, int j) {
    const Pack<V> g = slopes_at<V>(p, b, i, j, first, weighted), x = load_pack<V>(b.x + i);
#pragma unroll
    for (int k = 0; k < V; ++k) {
      sum += g.at[k];
      dot += g.at[k] * (x.at[k] - mean) * rstd;
    }
  });
  sum = block_sum(sum, shared);
  return {sum, block_sum(dot, shared)};
}

template <int V>
__global__ void __launch_bounds__(kThreads)
    sums_kernel(const __grid_constant__ Norm p, const __grid_constant__ NormBackward b, float* scratch) {
  begin();
  __shared__ float shared[32];
  const Piece at = piece_of(p);
  const float mean = b.mean ? b.mean[at.stat] : 0.f, rstd = 1.f / sqrtf(b.var[at.stat] + p.eps);
  const Sums s = sums_of<V>(p, b, at, mean, rstd, b.weight && !one_weight(p), shared);
  if (threadIdx.x > 0) return;
  scratch[2 * blockIdx.x] = s.sum;
  scratch[2 * blockIdx.x + 1] = s.dot;
}

template <int V>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(const __grid_constant__ Norm p, const __grid_constant__ NormBackward b, const float* scratch) {
  begin();
  __shared__ float shared[32];
  const Piece at = piece_of(p);
  const float mean = b.mean ? b.mean[at.stat] : 0.f, rstd = 1.f / sqrtf(b.var[at.stat] + p.eps);
  const bool many = b.weight && !one_weight(p);
  Sums s{0, 0};
  if (p.pieces == 1) {
    s = sums_of<V>(p, b, at, mean, rstd, many, shared);
  } else {
    for (int i = 0; i < p.pieces; ++i) {
      s.sum += scratch[2 * (at.stat * p.pieces + i)];
      s.dot += scratch[2 * (at.stat * p.pieces + i) + 1];
    }
  }
  if (threadIdx.x == 0 && at.first == 0 && b.dot) {
    b.dot[at.stat] = s.dot;
    b.sum[at.stat] = s.sum;
  }
  const float count = static_cast<float>(p.outer * p.length);
  const float from_sum = p.centred && !p.fixed ? s.sum / count : 0.f, from_dot = p.fixed ? 0.f : s.dot / count;
  const int first = first_weight(p, at.stat);
  const float scale = rstd * (b.weight && !many ? b.weight[first] : 1.f);
  walk<V>(p, at, [&](long long i, int j) {
    Pack<V> g = slopes_at<V>(p, b, i, j, first, many);
    const Pack<V> x = load_pack<V>(b.x + i);
#pragma unroll
    for (int k = 0; k < V; ++k) g.at[k] = scale * (g.at[k] - from_sum - (x.at[k] - mean) * rstd * from_dot);
    store_pack<V>(b.dx + i, g);
  });
}

// Rows whose elements have a weight each: 32 weights per block, its 8 rows of threads share the statistics of a part.
constexpr int kPartRows = 256;
__global__ void __launch_bounds__(kThreads)
    row_weights_kernel(const __grid_constant__ Norm p, const __grid_constant__ NormBackward b, float* scratch) {
  begin();
  __shared__ float shared[2][8][33];
  const int w = static_cast<int>(blockIdx.x) * 32 + static_cast<int>(threadIdx.x);
  const long long first = static_cast<long long>(blockIdx.y) * kPartRows, last = min(first + kPartRows, p.stats);
  float dot = 0, sum = 0;
  if (w < p.length) {
    for (long long s = first + threadIdx.y; s < last; s += 8) {
      const float dy = b.dy[s * p.step + w], mean = b.mean ? b.mean[s] : 0.f;
      dot += dy * (b.x[s * p.step + w] - mean) / sqrtf(b.var[s] + p.eps);
      sum += dy;
    }
  }
  shared[0][threadIdx.y][threadIdx.x] = dot;
  shared[1][threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y > 0 || w >= p.length) return;
  for (int i = 1; i < 8; ++i) dot += shared[0][i][threadIdx.x], sum += shared[1][i][threadIdx.x];
  float* to = scratch + 2ll * blockIdx.y * p.length;
  to[w] = dot;
  to[p.length + w] = sum;
}

__global__ void __launch_bounds__(kThreads)
    add_parts_kernel(const float* scratch, float* dweight, float* dbias, int weights, int parts) {
  begin();
  const int w = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (w >= weights) return;
  float dot = 0, sum = 0;
  for (int i = 0; i < parts; ++i) {
    dot += scratch[2ll * i * weights + w];
    sum += scratch[(2ll * i + 1) * weights + w];
  }
  dweight[w] = dot;
  if (dbias) dbias[w] = sum;
}

// Groups of channels: one block per channel, over the images.
__global__ void __launch_bounds__(kThreads)
    group_weights_kernel(const __grid_constant__ Norm p, const __grid_constant__ NormBackward b, float* dweight,
                         float* dbias) {
  begin();
  __shared__ float shared[32];
  const int group = static_cast<int>(blockIdx.x) / p.group_weights;
  const int channel = static_cast<int>(blockIdx.x) % p.group_weights;
  const long long images = p.stats / p.groups, terms = images * p.inside;
  float dot = 0, sum = 0;
  for (long long e = threadIdx.x; e < terms; e += kThreads) {
    const long long s = e / p.inside * p.groups + group;
    const long long i = s * p.step + static_cast<long long>(channel) * p.inside + e % p.inside;
    dot += b.dy[i] * (b.x[i] - (b.mean ? b.mean[s] : 0.f)) / sqrtf(b.var[s] + p.eps);
    sum += b.dy[i];
  }
  dot = block_sum(dot, shared);
  sum = block_sum(sum, shared);
  if (threadIdx.x > 0) return;
  dweight[blockIdx.x] = dot;
  if (dbias) dbias[blockIdx.x] = sum;
}

bool in_rows(const Norm& p) { return p.group_weights == 0; }
int parts_of(const Norm& p) { return static_cast<int>((p.stats + kPartRows - 1) / kPartRows); }

// True if all of these lie at multiples of 16 bytes, so that 4 neighbours are one access; null counts.
template <class... Pointers>
bool by_four(const Norm& p, Pointers... pointers) {
  return p.length % 4 == 0 && (... && (reinterpret_cast<unsigned long long>(pointers) % 16 == 0));
}

template <int V>
cudaError_t forward(const Norm& norm, const NormForward& f, float* scratch, cudaStream_t stream) {
  const LaunchShape shape{dim3(static_cast<unsigned>(norm.stats * norm.pieces)), dim3(kThreads)};
  if (norm.pieces > 1) {
    const cudaError_t status = launch(moments_kernel<V>, shape, stream, norm, f.x, scratch);
    if (status != cudaSuccess) return status;
  }
  return launch(forward_kernel<V>, shape, stream, norm, f, scratch);
}

template <int V>
cudaError_t backward(const Norm& norm, const NormBackward& b, float* scratch, cudaStream_t stream) {
  const LaunchShape shape{dim3(static_cast<unsigned>(norm.stats * norm.pieces)), dim3(kThreads)};
  if (norm.pieces > 1) {
    const cudaError_t status = launch(sums_kernel<V>, shape, stream, norm, b, scratch);
    if (status != cudaSuccess) return status;
  }
  return launch(backward_kernel<V>, shape, stream, norm, b, scratch);
}

template <int V>
cudaError_t load_all() {
  for (const cudaError_t status :
       {load(moments_kernel<V>), load(forward_kernel<V>), load(sums_kernel<V>), load(backward_kernel<V>)}) {
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

}  // namespace

int norm_pieces(const Norm& norm) {
  const long long count = static_cast<long long>(norm.outer) * norm.length, blocks = 132 * 16;
  long long pieces = (count + 4095) / 4096;
  if (norm.stats > 0 && pieces > blocks / norm.stats) pieces = blocks / norm.stats;
  return static_cast<int>(pieces < 1 ? 1 : pieces > 64 ? 64 : pieces);
}

cudaError_t load_norm() {
  for (const cudaError_t status :
       {load_all<1>(), load_all<4>(), load(row_weights_kernel), load(add_parts_kernel), load(group_weights_kernel)}) {
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

cudaError_t launch_norm_forward(const Norm& norm, const NormForward& f, float* scratch, cudaStream_t stream) {
  if (by_four(norm, f.x, f.y, f.residual)) return forward<4>(norm, f, scratch, stream);
  return forward<1>(norm, f, scratch, stream);
}

cudaError_t launch_norm_backward(const Norm& norm, const NormBackward& b, float* scratch, cudaStream_t stream) {
  if (by_four(norm, b.dy, b.y, b.x, b.dx)) return backward<4>(norm, b, scratch, stream);
  return backward<1>(norm, b, scratch, stream);
}

long long norm_weight_scratch(const Norm& norm) { return in_rows(norm) ? 2ll * parts_of(norm) * norm.length : 0; }

cudaError_t launch_norm_weights(const Norm& norm, const NormBackward& b, float* dweight, float* dbias, float* scratch,
                                cudaStream_t stream) {
  if (!in_rows(norm)) {
    return launch(group_weights_kernel, {dim3(static_cast<unsigned>(norm.groups * norm.group_weights)), dim3(kThreads)},
                  stream, norm, b, dweight, dbias);
  }
  const unsigned parts = static_cast<unsigned>(parts_of(norm));
  const cudaError_t status =
      launch(row_weights_kernel, {dim3(blocks_for(norm.length, 32), parts), dim3(32, 8)}, stream, norm, b, scratch);
  if (status != cudaSuccess) return status;
  return launch(add_parts_kernel, {dim3(blocks_for(norm.length, kThreads)), dim3(kThreads)}, stream, scratch, dweight,
                dbias, norm.length, static_cast<int>(parts));
}

}  // namespace starling::device
