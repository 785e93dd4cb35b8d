#include "starling/kernels/cuda/device/attention.h"
#include "starling/kernels/cuda/device/launch.cuh"

namespace starling::device {
namespace {

constexpr int kWarps = 4;
constexpr int kTile = 32;  // rows of the other side, one per lane

// Rows that a warp works on: many where they have few columns, C · 32 at most, so that registers hold their sums.
template <int C>
constexpr int kEach = C <= 2 ? 8 : 4;
template <int C>
constexpr int kRows = kWarps* kEach<C>;  // rows of a block

__device__ __forceinline__ long long entry(const Attention& p, const long long (&strides)[Attention::kMaxLeading],
                                           long long b) {
  long long at = 0;
  for (int i = p.rank - 1; i >= 0; --i) {
    at += b % p.sizes[i] * strides[i];
    b /= p.sizes[i];
  }
  return at;
}

// Columns of a row in shared memory: a multiple of 4, so that 4 are read at once, and 4 more, so that the lanes that
// read rows of their own meet in no bank.
__device__ __host__ __forceinline__ int padded(int width) { return (width + 3) / 4 * 4; }
__device__ __host__ __forceinline__ int pitch_of(int width) { return padded(width) + 4; }

// Rows [first, first + count) of an operand into shared memory, zeros past `all` and past the width.
__device__ __forceinline__ void load_rows(float* to, const float* from, long long row, int first, int count, int all,
                                          int width) {
  const int columns = padded(width), pitch = pitch_of(width);
  for (int i = threadIdx.x; i < count * columns; i += kWarps * 32) {
    const int r = i / columns, c = i % columns;
    to[r * pitch + c] = first + r < all && c < width ? from[(first + r) * row + c] : 0.f;
  }
}

// Products of a warp's rows with the row of its lane.
template <int R>
__device__ __forceinline__ void dots(float (&sums)[R], const float* rows, const float* lane_row, int width) {
  const int pitch = pitch_of(width);
#pragma unroll
  for (float& sum : sums) sum = 0;
  for (int i = 0; i < width; i += 4) {
    const float4 b = *reinterpret_cast<const float4*>(lane_row + i);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const float4 a = *reinterpret_cast<const float4*>(rows + r * pitch + i);
      sums[r] += a.x * b.x + a.y * b.y + a.z * b.z + a.w * b.w;
    }
  }
}

// Score of a query and a key with its mask; -inf where the key is not seen.
__device__ __forceinline__ float masked(const Attention& p, const void* mask, long long mask_at, int query, int key,
                                        float score) {
  if (query >= p.queries || key >= p.keys || (p.causal && key > query)) return -INFINITY;
  if (p.mask_kind == Attention::none) return score;
  const long long at = mask_at + query * p.mask_row + key * p.mask_column;
  if (p.mask_kind == Attention::added) return score + static_cast<const float*>(mask)[at];
  return static_cast<const bool*>(mask)[at] ? score : -INFINITY;
}

// Adds weight(lane) · rows[lane] of all lanes to a warp's rows of C · 32 columns, of which each lane has C. Weights
// pass through `shared`, 32 · R floats of the warp.
template <int C, int R>
__device__ __forceinline__ void add_rows(float (&sums)[R][C], const float (&weights)[R], const float* rows, int width,
                                         float* shared) {
  const int lane = threadIdx.x % 32, pitch = pitch_of(width);
  __syncwarp();
#pragma unroll
  for (int r = 0; r < R; r += 4)
    *reinterpret_cast<float4*>(shared + lane * R + r) =
        make_float4(weights[r], weights[r + 1], weights[r + 2], weights[r + 3]);
  __syncwarp();
#pragma unroll 4
  for (int j = 0; j < kTile; ++j) {
    float v[C];
#pragma unroll
    for (int c = 0; c < C; ++c) v[c] = c * 32 + lane < width ? rows[j * pitch + c * 32 + lane] : 0.f;
#pragma unroll
    for (int r = 0; r < R; r += 4) {
      const float4 w = *reinterpret_cast<const float4*>(shared + j * R + r);
#pragma unroll
      for (int c = 0; c < C; ++c) {
        sums[r][c] += w.x * v[c];
        sums[r + 1][c] += w.y * v[c];
        sums[r + 2][c] += w.z * v[c];
        sums[r + 3][c] += w.w * v[c];
      }
    }
  }
}

template <int C>
__device__ __forceinline__ void store_row(float* to, const float (&sums)[C], float scale, int width) {
#pragma unroll
  for (int c = 0; c < C; ++c) {
    const int column = c * 32 + static_cast<int>(threadIdx.x % 32);
    if (column < width) to[column] = sums[c] * scale;
  }
}

struct Largest {
  __device__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

template <int C>
__global__ void __launch_bounds__(kWarps * 32)
    forward_kernel(const __grid_constant__ Attention p, const float* q, const float* k, const float* v,
                   const void* mask, float* y, float* lse) {
  begin();
  constexpr int R = kEach<C>, kBlock = kRows<C>;
  extern __shared__ __align__(16) float shared[];
  const int pitch = pitch_of(p.d), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float *queries = shared, *keys = queries + kBlock * pitch, *values = keys + kTile * pitch;
  float* passed = values + kTile * pitch_of(p.dv) + warp * kTile * R;
  const int blocks = (p.queries + kBlock - 1) / kBlock;
  const long long b = blockIdx.x / blocks;
  const int first = static_cast<int>(blockIdx.x % blocks) * kBlock, own = first + warp * R;
  const long long mask_at = entry(p, p.mask_leading, b), k_at = entry(p, p.k.leading, b),
                  v_at = entry(p, p.v.leading, b);
  load_rows(queries, q + entry(p, p.q.leading, b), p.q.row, first, kBlock, p.queries, p.d);
  float sums[R][C] = {}, largest[R], total[R] = {};
  for (float& l : largest) l = -INFINITY;
  const int end = p.causal ? min(p.keys, first + kBlock) : p.keys;
  for (int tile = 0; tile < end; tile += kTile) {
    __syncthreads();
    load_rows(keys, k + k_at, p.k.row, tile, kTile, p.keys, p.d);
    load_rows(values, v + v_at, p.v.row, tile, kTile, p.keys, p.dv);
    __syncthreads();
    float weights[R];
    dots(weights, queries + warp * R * pitch, keys + lane * pitch, p.d);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const float score = masked(p, mask, mask_at, own + r, tile + lane, p.scale * weights[r]);
      const float peak = fmaxf(largest[r], warp_reduce(score, Largest{}));
      const float shift = peak == -INFINITY ? 0.f : peak, shrink = expf(largest[r] - shift);
      weights[r] = expf(score - shift);
      largest[r] = peak;
      total[r] = total[r] * shrink + warp_reduce(weights[r], Plus{});
#pragma unroll
      for (int c = 0; c < C; ++c) sums[r][c] *= shrink;
    }
    add_rows<C, R>(sums, weights, values, p.dv, passed);
  }
  for (int r = 0; r < R; ++r) {
    if (own + r >= p.queries) break;
    const long long row = b * p.queries + own + r;
    const bool seen = total[r] > 0 || total[r] != total[r];
    store_row<C>(y + row * p.dv, sums[r], seen ? 1.f / total[r] : 0.f, p.dv);
    if (lane == 0) lse[row] = seen ? largest[r] + logf(total[r]) : 0.f;
  }
}

// delta = dy · y - dlse of every query: one warp each.
__global__ void __launch_bounds__(kWarps * 32)
    delta_kernel(const __grid_constant__ Attention p, const __grid_constant__ AttentionBackward b, float* delta) {
  begin();
  const long long row = static_cast<long long>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row >= p.batch * p.queries) return;
  const float* dy = b.dy + entry(p, p.dy.leading, row / p.queries) + row % p.queries * p.dy.row;
  float sum = 0;
  for (int c = threadIdx.x % 32; c < p.dv; c += 32) sum += dy[c] * b.y[row * p.dv + c];
  sum = warp_reduce(sum, Plus{});
  if (threadIdx.x % 32 == 0) delta[row] = sum - b.dlse[row];
}

template <int C>
__global__ void __launch_bounds__(kWarps * 32)
    query_kernel(const __grid_constant__ Attention p, const __grid_constant__ AttentionBackward b,
                 const float* deltas) {
  begin();
  constexpr int R = kEach<C>, kBlock = kRows<C>;
  extern __shared__ __align__(16) float shared[];
  const int pitch = pitch_of(p.d), pitch_v = pitch_of(p.dv), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float *queries = shared, *slopes = queries + kBlock * pitch, *keys = slopes + kBlock * pitch_v,
        *values = keys + kTile * pitch, *passed = values + kTile * pitch_v + warp * kTile * R;
  const int blocks = (p.queries + kBlock - 1) / kBlock;
  const long long batch = blockIdx.x / blocks;
  const int first = static_cast<int>(blockIdx.x % blocks) * kBlock, own = first + warp * R;
  const long long mask_at = entry(p, p.mask_leading, batch), k_at = entry(p, p.k.leading, batch),
                  v_at = entry(p, p.v.leading, batch);
  load_rows(queries, b.q + entry(p, p.q.leading, batch), p.q.row, first, kBlock, p.queries, p.d);
  load_rows(slopes, b.dy + entry(p, p.dy.leading, batch), p.dy.row, first, kBlock, p.queries, p.dv);
  float sums[R][C] = {}, lse[R], delta[R];
#pragma unroll
  for (int r = 0; r < R; ++r) {
    const long long row = batch * p.queries + min(own + r, p.queries - 1);
    lse[r] = b.lse[row];
    delta[r] = deltas[row];
  }
  const int end = p.causal ? min(p.keys, first + kBlock) : p.keys;
  for (int tile = 0; tile < end; tile += kTile) {
    __syncthreads();
    load_rows(keys, b.k + k_at, p.k.row, tile, kTile, p.keys, p.d);
    load_rows(values, b.v + v_at, p.v.row, tile, kTile, p.keys, p.dv);
    __syncthreads();
    float scores[R], through[R];
    dots(scores, queries + warp * R * pitch, keys + lane * pitch, p.d);
    dots(through, slopes + warp * R * pitch_v, values + lane * pitch_v, p.dv);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      const float weight = expf(masked(p, b.mask, mask_at, own + r, tile + lane, p.scale * scores[r]) - lse[r]);
      scores[r] = p.scale * weight * (through[r] - delta[r]);
    }
    add_rows<C, R>(sums, scores, keys, p.d, passed);
  }
  for (int r = 0; r < R; ++r) {
    if (own + r < p.queries) store_row<C>(b.dq + (batch * p.queries + own + r) * p.d, sums[r], 1.f, p.d);
  }
}

template <int C>
__global__ void __launch_bounds__(kWarps * 32)
    key_kernel(const __grid_constant__ Attention p, const __grid_constant__ AttentionBackward b, const float* deltas) {
  begin();
  constexpr int R = kEach<C>, kBlock = kRows<C>;
  extern __shared__ __align__(16) float shared[];
  const int pitch = pitch_of(p.d), pitch_v = pitch_of(p.dv), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  float *keys = shared, *values = keys + kBlock * pitch, *queries = values + kBlock * pitch_v,
        *slopes = queries + kTile * pitch, *passed = slopes + kTile * pitch_v + warp * kTile * R;
  const int blocks = (p.keys + kBlock - 1) / kBlock;
  const long long batch = blockIdx.x / blocks;
  const int first = static_cast<int>(blockIdx.x % blocks) * kBlock, own = first + warp * R;
  const long long mask_at = entry(p, p.mask_leading, batch), q_at = entry(p, p.q.leading, batch),
                  dy_at = entry(p, p.dy.leading, batch);
  load_rows(keys, b.k + entry(p, p.k.leading, batch), p.k.row, first, kBlock, p.keys, p.d);
  load_rows(values, b.v + entry(p, p.v.leading, batch), p.v.row, first, kBlock, p.keys, p.dv);
  float to_keys[R][C] = {}, to_values[R][C] = {};
  for (int tile = p.causal ? first / kTile * kTile : 0; tile < p.queries; tile += kTile) {
    __syncthreads();
    load_rows(queries, b.q + q_at, p.q.row, tile, kTile, p.queries, p.d);
    load_rows(slopes, b.dy + dy_at, p.dy.row, tile, kTile, p.queries, p.dv);
    __syncthreads();
    const long long row = batch * p.queries + min(tile + lane, p.queries - 1);
    const float lse = b.lse[row], delta = deltas[row];
    float weights[R], through[R];
    dots(weights, keys + warp * R * pitch, queries + lane * pitch, p.d);
    dots(through, values + warp * R * pitch_v, slopes + lane * pitch_v, p.dv);
#pragma unroll
    for (int r = 0; r < R; ++r) {
      weights[r] = expf(masked(p, b.mask, mask_at, tile + lane, own + r, p.scale * weights[r]) - lse);
      through[r] = p.scale * weights[r] * (through[r] - delta);
    }
    add_rows<C, R>(to_values, weights, slopes, p.dv, passed);
    add_rows<C, R>(to_keys, through, queries, p.d, passed);
  }
  for (int r = 0; r < R; ++r) {
    if (own + r >= p.keys) break;
    store_row<C>(b.dk + (batch * p.keys + own + r) * p.d, to_keys[r], 1.f, p.d);
    store_row<C>(b.dv + (batch * p.keys + own + r) * p.dv, to_values[r], 1.f, p.dv);
  }
}

// Shared memory of a block of `rows` rows.
unsigned forward_bytes(const Attention& p, int rows) {
  const int floats = (rows + kTile) * pitch_of(p.d) + kTile * pitch_of(p.dv) + rows * kTile;
  return static_cast<unsigned>(floats * sizeof(float));
}
unsigned backward_bytes(const Attention& p, int rows) {
  return static_cast<unsigned>(((rows + kTile) * (pitch_of(p.d) + pitch_of(p.dv)) + rows * kTile) * sizeof(float));
}

template <class Use>
cudaError_t with_columns(const Attention& p, Use&& use) {
  const int most = p.d > p.dv ? p.d : p.dv;
  if (most <= 32) return use(forward_kernel<1>, query_kernel<1>, key_kernel<1>, kRows<1>);
  if (most <= 64) return use(forward_kernel<2>, query_kernel<2>, key_kernel<2>, kRows<2>);
  if (most <= 128) return use(forward_kernel<4>, query_kernel<4>, key_kernel<4>, kRows<4>);
  return use(forward_kernel<8>, query_kernel<8>, key_kernel<8>, kRows<8>);
}

// Loads a kernel, with room for this much shared memory.
template <class Kernel>
cudaError_t load_with(Kernel* kernel, unsigned bytes) {
  cudaError_t status = load(kernel);
  if (status != cudaSuccess || bytes <= 48 * 1024) return status;
  return cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, 160 * 1024);
}

unsigned blocks_of(const Attention& p, int rows, int each) {
  return static_cast<unsigned>(p.batch * ((rows + each - 1) / each));
}

}  // namespace

cudaError_t load_attention(const Attention& p) {
  return with_columns(p, [&](auto* forward, auto* query, auto* key, int rows) {
    for (const cudaError_t status :
         {load_with(forward, forward_bytes(p, rows)), load_with(query, backward_bytes(p, rows)),
          load_with(key, backward_bytes(p, rows)), load(delta_kernel)}) {
      if (status != cudaSuccess) return status;
    }
    return cudaSuccess;
  });
}

cudaError_t launch_attention(const Attention& p, const float* q, const float* k, const float* v, const void* mask,
                             float* y, float* lse, cudaStream_t stream) {
  return with_columns(p, [&](auto* forward, auto*, auto*, int rows) {
    return launch(forward, {dim3(blocks_of(p, p.queries, rows)), dim3(kWarps * 32), forward_bytes(p, rows)}, stream, p,
                  q, k, v, mask, y, lse);
  });
}

cudaError_t launch_attention_backward(const Attention& p, const AttentionBackward& b, float* scratch,
                                      cudaStream_t stream) {
  const LaunchShape each{dim3(blocks_for(p.batch * p.queries, kWarps)), dim3(kWarps * 32)};
  const cudaError_t status = launch(delta_kernel, each, stream, p, b, scratch);
  if (status != cudaSuccess) return status;
  return with_columns(p, [&](auto*, auto* query, auto* key, int rows) {
    const dim3 block(kWarps * 32);
    const cudaError_t made =
        launch(query, {dim3(blocks_of(p, p.queries, rows)), block, backward_bytes(p, rows)}, stream, p, b, scratch);
    if (made != cudaSuccess) return made;
    return launch(key, {dim3(blocks_of(p, p.keys, rows)), block, backward_bytes(p, rows)}, stream, p, b, scratch);
  });
}

}  // namespace starling::device
