#include "starling/kernels/cuda/device/flash_attention.h"
#include "starling/kernels/cuda/device/flash_tile.cuh"
#include "starling/kernels/cuda/device/launch.cuh"

namespace starling::device {
namespace {

constexpr int kThreads = 128;  // four warps of 32 rows each
constexpr int kRows = 128;     // rows of a block
constexpr float kLog2e = 1.4426950408889634f;

// Offset of a batch entry of an operand.
__device__ __forceinline__ long long entry_at(const Attention& p, const Attention::Rows& rows, long long b) {
  long long at = 0;
  for (int i = p.rank - 1; i >= 0; --i) {
    at += b % p.sizes[i] * rows.leading[i];
    b /= p.sizes[i];
  }
  return at;
}

// Batch entry and first row of a block. Where rows differ in work, those with most of it begin first.
struct Block {
  long long entry;
  int first;
};
__device__ __forceinline__ Block block_of(long long batch, int rows, bool last_first) {
  const int tiles = (rows + kRows - 1) / kRows, tile = static_cast<int>(blockIdx.x / batch);
  return {blockIdx.x % batch, (last_first ? tiles - 1 - tile : tile) * kRows};
}

// 2ˣ by one instruction, without exp2f's care for denormals.
__device__ __forceinline__ float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ float quad_max(float v) {
  v = fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 1));
  return fmaxf(v, __shfl_xor_sync(0xffffffffu, v, 2));
}
__device__ __forceinline__ float quad_sum(float v) {
  v += __shfl_xor_sync(0xffffffffu, v, 1);
  return v + __shfl_xor_sync(0xffffffffu, v, 2);
}

// Scores that are not seen become -inf: rows are queries from `row`, columns keys from `column`.
template <int M, int N>
__device__ __forceinline__ void hide(Sums<M, N>& s, int row, int column, const Attention& p) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) {
        const int query = row + m * 16 + lane / 4 + e / 2 * 8, key = column + n * 8 + lane % 4 * 2 + e % 2;
        if (key >= p.keys || (p.causal && key > query)) s[m][n][e] = -INFINITY;
      }
    }
  }
}

template <class T, int D>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const __grid_constant__ Attention p, const __grid_constant__ FlashForward f) {
  begin();
  constexpr int kKeys = 64, M = 2, N = kKeys / 8;
  extern __shared__ __align__(128) unsigned char memory[];
  T* queries = reinterpret_cast<T*>(memory);
  T* keys = queries + kRows * D;     // two tiles
  T* values = keys + 2 * kKeys * D;  // two tiles
  const Block at = block_of(p.batch, p.queries, true);
  const T* k = static_cast<const T*>(f.k) + entry_at(p, p.k, at.entry);
  const T* v = static_cast<const T*>(f.v) + entry_at(p, p.v, at.entry);
  fetch_tile<T, D, kRows, kThreads>(queries, static_cast<const T*>(f.q) + entry_at(p, p.q, at.entry), p.q.row, at.first,
                                    p.queries);
  fetch_tile<T, D, kKeys, kThreads>(keys, k, p.k.row, 0, p.keys);
  fetch_tile<T, D, kKeys, kThreads>(values, v, p.v.row, 0, p.keys);
  end_fetch();
  const int seen = p.causal ? min(p.keys, at.first + kRows) : p.keys;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 32, row = at.first + warp_row;
  Sums<M, D / 8> out;
  clear<M, D / 8>(out);
  float largest[M][2], total[M][2];
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) largest[m][h] = -INFINITY, total[m][h] = 0;
  }
  const float scale = p.scale * kLog2e;
  for (int first = 0, turn = 0; first < seen; first += kKeys, turn ^= 1) {
    wait_fetched<0>();
    __syncthreads();
    if (first + kKeys < seen) {
      fetch_tile<T, D, kKeys, kThreads>(keys + (turn ^ 1) * kKeys * D, k, p.k.row, first + kKeys, p.keys);
      fetch_tile<T, D, kKeys, kThreads>(values + (turn ^ 1) * kKeys * D, v, p.v.row, first + kKeys, p.keys);
    }
    end_fetch();
    if (p.causal && first > row + 31) continue;  // queries of the warp see none of the block's keys
    Sums<M, N> s;
    clear<M, N>(s);
    add_scores<T, D, M, N>(s, queries, warp_row, keys + turn * kKeys * D);
    if (first + kKeys > p.keys || (p.causal && first + kKeys - 1 > row)) hide<M, N>(s, row, first, p);
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        float most = largest[m][h];
#pragma unroll
        for (int n = 0; n < N; ++n) most = fmaxf(most, fmaxf(s[m][n][2 * h], s[m][n][2 * h + 1]));
        most = quad_max(most);
        const float base = most == -INFINITY ? 0.f : most * scale;
        const float shrink = power_of_two(largest[m][h] * scale - base);
        largest[m][h] = most;
        float sum = 0;
#pragma unroll
        for (int n = 0; n < N; ++n) {
#pragma unroll
          for (int e = 0; e < 2; ++e) {
            float& one = s[m][n][2 * h + e];
            one = power_of_two(one * scale - base);
            sum += one;
          }
        }
        total[m][h] = total[m][h] * shrink + sum;
#pragma unroll
        for (int n = 0; n < D / 8; ++n) out[m][n][2 * h] *= shrink, out[m][n][2 * h + 1] *= shrink;
      }
    }
    add_weighted<T, D, M, N>(out, s, values + turn * kKeys * D);
  }
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float sum = quad_sum(total[m][h]), inverse = 1.f / sum;
#pragma unroll
      for (int n = 0; n < D / 8; ++n) out[m][n][2 * h] *= inverse, out[m][n][2 * h + 1] *= inverse;
      const int query = row + m * 16 + lane / 4 + h * 8;
      if (lane % 4 == 0 && query < p.queries)
        store_real(f.lse, at.entry * p.queries + query, largest[m][h] * p.scale + logf(sum));
    }
  }
  write_rows<T, D, M>(static_cast<T*>(f.y) + entry_at(p, p.y, at.entry), p.y.row, out, row, p.queries, 1.f);
}

// Σ of eight products.
template <class T>
__device__ __forceinline__ float dot_eight(const T* a, const T* b) {
  float sum = 0;
  if (by_sixteen(a) && by_sixteen(b)) {
    const uint4 x = *reinterpret_cast<const uint4*>(a), y = *reinterpret_cast<const uint4*>(b);
    const T *xs = reinterpret_cast<const T*>(&x), *ys = reinterpret_cast<const T*>(&y);
#pragma unroll
    for (int i = 0; i < 8; ++i) sum += static_cast<float>(xs[i]) * static_cast<float>(ys[i]);
    return sum;
  }
  for (int i = 0; i < 8; ++i) sum += static_cast<float>(a[i]) * static_cast<float>(b[i]);
  return sum;
}

// δ = Σ dy · y - dlse: eight elements a lane, D / 8 lanes a query.
template <class T, int D>
__global__ void __launch_bounds__(256)
    delta_kernel(const __grid_constant__ Attention p, const __grid_constant__ FlashBackward b) {
  begin();
  constexpr int kLanes = D / 8;
  const long long number = static_cast<long long>(blockIdx.x) * (256 / kLanes) + threadIdx.x / kLanes;
  const int part = static_cast<int>(threadIdx.x) % kLanes;
  const bool there = number < p.batch * p.queries;
  const long long entry = there ? number / p.queries : 0, query = there ? number % p.queries : 0;
  const T* dy = static_cast<const T*>(b.dy) + entry_at(p, p.dy, entry) + query * p.dy.row;
  float sum =
      dot_eight(dy + part * 8, static_cast<const T*>(b.y) + entry_at(p, p.y, entry) + query * p.y.row + part * 8);
#pragma unroll
  for (int offset = 1; offset < kLanes; offset *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, offset);
  if (there && part == 0) b.delta[number] = sum - load_real(b.dlse, number);
}

// Gradient of 128 queries: walks the keys.
template <class T, int D>
__global__ void __launch_bounds__(kThreads)
    queries_kernel(const __grid_constant__ Attention p, const __grid_constant__ FlashBackward b) {
  begin();
  constexpr int kKeys = 32, M = 2, N = kKeys / 8;
  extern __shared__ __align__(128) unsigned char memory[];
  T* queries = reinterpret_cast<T*>(memory);
  T* slopes = queries + kRows * D;
  T* keys = slopes + kRows * D;      // two tiles
  T* values = keys + 2 * kKeys * D;  // two tiles
  const Block at = block_of(p.batch, p.queries, true);
  const T* k = static_cast<const T*>(b.k) + entry_at(p, p.k, at.entry);
  const T* v = static_cast<const T*>(b.v) + entry_at(p, p.v, at.entry);
  fetch_tile<T, D, kRows, kThreads>(queries, static_cast<const T*>(b.q) + entry_at(p, p.q, at.entry), p.q.row, at.first,
                                    p.queries);
  fetch_tile<T, D, kRows, kThreads>(slopes, static_cast<const T*>(b.dy) + entry_at(p, p.dy, at.entry), p.dy.row,
                                    at.first, p.queries);
  fetch_tile<T, D, kKeys, kThreads>(keys, k, p.k.row, 0, p.keys);
  fetch_tile<T, D, kKeys, kThreads>(values, v, p.v.row, 0, p.keys);
  end_fetch();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 32, row = at.first + warp_row;
  const float scale = p.scale * kLog2e;
  float base[M][2], delta[M][2];
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const int query = row + m * 16 + lane / 4 + h * 8;
      const long long number = at.entry * p.queries + query;
      base[m][h] = query < p.queries ? load_real(b.lse, number) * kLog2e : 0.f;
      delta[m][h] = query < p.queries ? b.delta[number] : 0.f;
    }
  }
  Sums<M, D / 8> out;
  clear<M, D / 8>(out);
  const int seen = p.causal ? min(p.keys, at.first + kRows) : p.keys;
  for (int first = 0, turn = 0; first < seen; first += kKeys, turn ^= 1) {
    wait_fetched<0>();
    __syncthreads();
    if (first + kKeys < seen) {
      fetch_tile<T, D, kKeys, kThreads>(keys + (turn ^ 1) * kKeys * D, k, p.k.row, first + kKeys, p.keys);
      fetch_tile<T, D, kKeys, kThreads>(values + (turn ^ 1) * kKeys * D, v, p.v.row, first + kKeys, p.keys);
    }
    end_fetch();
    if (p.causal && first > row + 31) continue;
    Sums<M, N> s, ds;
    clear<M, N>(s);
    clear<M, N>(ds);
    add_scores<T, D, M, N>(s, queries, warp_row, keys + turn * kKeys * D);
    add_scores<T, D, M, N>(ds, slopes, warp_row, values + turn * kKeys * D);
    if (first + kKeys > p.keys || (p.causal && first + kKeys - 1 > row)) hide<M, N>(s, row, first, p);
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e)
          ds[m][n][e] = power_of_two(s[m][n][e] * scale - base[m][e / 2]) * (ds[m][n][e] - delta[m][e / 2]);
      }
    }
    add_weighted<T, D, M, N>(out, ds, keys + turn * kKeys * D);
  }
  write_rows<T, D, M>(static_cast<T*>(b.dq) + entry_at(p, p.dq, at.entry), p.dq.row, out, row, p.queries, p.scale);
}

// Gradients of 128 keys and values: walks the queries. Rows of all sums are keys, columns queries.
template <class T, int D>
__global__ void __launch_bounds__(kThreads)
    keys_kernel(const __grid_constant__ Attention p, const __grid_constant__ FlashBackward b) {
  begin();
  constexpr int kQueries = 32, M = 2, N = kQueries / 8;
  extern __shared__ __align__(128) unsigned char memory[];
  T* keys = reinterpret_cast<T*>(memory);
  T* values = keys + kRows * D;
  T* queries = values + kRows * D;         // two tiles
  T* slopes = queries + 2 * kQueries * D;  // two tiles
  __shared__ float bases[2][kQueries], deltas[2][kQueries];
  const Block at = block_of(p.batch, p.keys, false);
  const T* q = static_cast<const T*>(b.q) + entry_at(p, p.q, at.entry);
  const T* dy = static_cast<const T*>(b.dy) + entry_at(p, p.dy, at.entry);
  const int begin_at = p.causal ? at.first / kQueries * kQueries : 0;  // queries before see none of these keys
  const auto fetch = [&](int first, int turn) {
    fetch_tile<T, D, kQueries, kThreads>(queries + turn * kQueries * D, q, p.q.row, first, p.queries);
    fetch_tile<T, D, kQueries, kThreads>(slopes + turn * kQueries * D, dy, p.dy.row, first, p.queries);
    if (threadIdx.x < kQueries) {
      const int query = first + static_cast<int>(threadIdx.x);
      const long long number = at.entry * p.queries + query;
      bases[turn][threadIdx.x] = query < p.queries ? load_real(b.lse, number) * kLog2e : INFINITY;
      deltas[turn][threadIdx.x] = query < p.queries ? b.delta[number] : 0.f;
    }
  };
  fetch_tile<T, D, kRows, kThreads>(keys, static_cast<const T*>(b.k) + entry_at(p, p.k, at.entry), p.k.row, at.first,
                                    p.keys);
  fetch_tile<T, D, kRows, kThreads>(values, static_cast<const T*>(b.v) + entry_at(p, p.v, at.entry), p.v.row, at.first,
                                    p.keys);
  if (begin_at < p.queries) fetch(begin_at, 0);
  end_fetch();
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp_row = static_cast<int>(threadIdx.x) / 32 * 32, row = at.first + warp_row;
  const float scale = p.scale * kLog2e;
  Sums<M, D / 8> dk, dv;
  clear<M, D / 8>(dk);
  clear<M, D / 8>(dv);
  for (int first = begin_at, turn = 0; first < p.queries; first += kQueries, turn ^= 1) {
    wait_fetched<0>();
    __syncthreads();
    if (first + kQueries < p.queries) fetch(first + kQueries, turn ^ 1);
    end_fetch();
    if (p.causal && first + kQueries - 1 < row) continue;  // queries of the block see none of the warp's keys
    Sums<M, N> s, ds;
    clear<M, N>(s);
    add_scores<T, D, M, N>(s, keys, warp_row, queries + turn * kQueries * D);
    const bool cut = p.causal && first < row + 31;
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int column = n * 8 + lane % 4 * 2 + e % 2;
          s[m][n][e] = power_of_two(s[m][n][e] * scale - bases[turn][column]);
          if (cut && row + m * 16 + lane / 4 + e / 2 * 8 > first + column) s[m][n][e] = 0;
        }
      }
    }
    add_weighted<T, D, M, N>(dv, s, slopes + turn * kQueries * D);
    clear<M, N>(ds);
    add_scores<T, D, M, N>(ds, values, warp_row, slopes + turn * kQueries * D);
#pragma unroll
    for (int m = 0; m < M; ++m) {
#pragma unroll
      for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e)
          ds[m][n][e] = s[m][n][e] * (ds[m][n][e] - deltas[turn][n * 8 + lane % 4 * 2 + e % 2]);
      }
    }
    add_weighted<T, D, M, N>(dk, ds, queries + turn * kQueries * D);
  }
  write_rows<T, D, M>(static_cast<T*>(b.dk) + entry_at(p, p.dk, at.entry), p.dk.row, dk, row, p.keys, p.scale);
  write_rows<T, D, M>(static_cast<T*>(b.dv) + entry_at(p, p.dv_rows, at.entry), p.dv_rows.row, dv, row, p.keys, 1.f);
}

template <int D>
constexpr unsigned forward_bytes() {
  return (kRows + 4 * 64) * D * 2;
}
template <int D>
constexpr unsigned backward_bytes() {
  return (2 * kRows + 4 * 32) * D * 2;
}

unsigned blocks_of(long long batch, int rows) { return static_cast<unsigned>(batch * ((rows + kRows - 1) / kRows)); }

template <class T, int D>
struct Kernels {
  static cudaError_t loaded() {
    for (const cudaError_t status :
         {cudaFuncSetAttribute(forward_kernel<T, D>, cudaFuncAttributeMaxDynamicSharedMemorySize, forward_bytes<D>()),
          cudaFuncSetAttribute(queries_kernel<T, D>, cudaFuncAttributeMaxDynamicSharedMemorySize, backward_bytes<D>()),
          cudaFuncSetAttribute(keys_kernel<T, D>, cudaFuncAttributeMaxDynamicSharedMemorySize, backward_bytes<D>()),
          load(forward_kernel<T, D>), load(delta_kernel<T, D>), load(queries_kernel<T, D>), load(keys_kernel<T, D>)}) {
      if (status != cudaSuccess) return status;
    }
    return cudaSuccess;
  }
  static cudaError_t forward(const Attention& p, const FlashForward& f, cudaStream_t stream) {
    const LaunchShape shape{dim3(blocks_of(p.batch, p.queries)), dim3(kThreads), forward_bytes<D>()};
    return launch(forward_kernel<T, D>, shape, stream, p, f);
  }
  static cudaError_t backward(const Attention& p, const FlashBackward& b, cudaStream_t stream) {
    cudaError_t status =
        launch(delta_kernel<T, D>, {dim3(blocks_for(p.batch * p.queries, 256 / (D / 8))), dim3(256)}, stream, p, b);
    if (status != cudaSuccess) return status;
    status = launch(keys_kernel<T, D>, {dim3(blocks_of(p.batch, p.keys)), dim3(kThreads), backward_bytes<D>()}, stream,
                    p, b);
    if (status != cudaSuccess) return status;
    return launch(queries_kernel<T, D>, {dim3(blocks_of(p.batch, p.queries)), dim3(kThreads), backward_bytes<D>()},
                  stream, p, b);
  }
};

template <class Use>
cudaError_t with_kernels(Real kind, int d, Use&& use) {
  if (kind == Real::bf16) return d == 32 ? use(Kernels<__nv_bfloat16, 32>{}) : use(Kernels<__nv_bfloat16, 64>{});
  return d == 32 ? use(Kernels<__half, 32>{}) : use(Kernels<__half, 64>{});
}

}  // namespace

bool takes_flash(const Attention& p) {
  const bool sizes = p.d == p.dv && (p.d == 32 || p.d == 64) && p.queries > 0 && p.keys > 0;
  const long long tiles = (p.queries > p.keys ? p.queries : p.keys) / kRows + 1;
  return sizes && p.mask_kind == Attention::none && p.scale > 0 && p.batch * tiles < (1ll << 31);
}

cudaError_t load_flash(Real kind, int d) {
  return with_kernels(kind, d, [](auto kernels) { return kernels.loaded(); });
}

cudaError_t launch_flash(const Attention& p, Real kind, const FlashForward& f, cudaStream_t stream) {
  return with_kernels(kind, p.d, [&](auto kernels) { return kernels.forward(p, f, stream); });
}

cudaError_t launch_flash_backward(const Attention& p, Real kind, const FlashBackward& b, cudaStream_t stream) {
  return with_kernels(kind, p.d, [&](auto kernels) { return kernels.backward(p, b, stream); });
}

}  // namespace starling::device
