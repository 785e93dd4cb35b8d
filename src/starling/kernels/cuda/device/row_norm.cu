#include "starling/kernels/cuda/device/column_parts.cuh"
#include "starling/kernels/cuda/device/real.cuh"
#include "starling/kernels/cuda/device/row_norm.h"

namespace starling::device {
namespace {

constexpr int kWarps = 8;
constexpr int kThreads = kWarps * 32;
constexpr int kBackwardBlocks = 132 * 2;
constexpr int kMostWidth = 1024;

// Row of `width` elements over a warp, P packs of 8 a lane; past the end: 0.
template <int P>
struct Row {
  Eight packs[P];
};
// The kind is asked for once, so that all loads of a row are in flight together.
template <int P>
__device__ __forceinline__ Row<P> load_row(const Reals& x, long long row, int width) {
  Row<P> v;
  const int first = static_cast<int>(threadIdx.x) % 32 * 8;
  if (x.kind == Real::f32 && by_sixteen(x.data)) {
    const float* from = static_cast<const float*>(x.data) + row * width;
    float4 low[P], high[P];
#pragma unroll
    for (int j = 0; j < P; ++j) {
      const int at = j * 256 + first;
      low[j] = high[j] = make_float4(0, 0, 0, 0);
      if (at < width) {
        low[j] = *reinterpret_cast<const float4*>(from + at);
        high[j] = *reinterpret_cast<const float4*>(from + at + 4);
      }
    }
#pragma unroll
    for (int j = 0; j < P; ++j)
      v.packs[j] = {{low[j].x, low[j].y, low[j].z, low[j].w, high[j].x, high[j].y, high[j].z, high[j].w}};
    return v;
  }
  if (x.kind == Real::bf16 && by_sixteen(x.data)) {
    const unsigned short* from = static_cast<const unsigned short*>(x.data) + row * width;
    uint4 raw[P];
#pragma unroll
    for (int j = 0; j < P; ++j) {
      const int at = j * 256 + first;
      raw[j] = at < width ? *reinterpret_cast<const uint4*>(from + at) : make_uint4(0, 0, 0, 0);
    }
#pragma unroll
    for (int j = 0; j < P; ++j)
      v.packs[j] = {{low_bf16(raw[j].x), high_bf16(raw[j].x), low_bf16(raw[j].y), high_bf16(raw[j].y),
                     low_bf16(raw[j].z), high_bf16(raw[j].z), low_bf16(raw[j].w), high_bf16(raw[j].w)}};
    return v;
  }
#pragma unroll
  for (int j = 0; j < P; ++j) {
    const int at = j * 256 + first;
    v.packs[j] = at < width ? load_eight(x, row * width + at) : Eight{};
  }
  return v;
}

// Calls f(pack, position in the row) for the packs that exist.
template <int P, class F>
__device__ __forceinline__ void each_pack(int width, F&& f) {
#pragma unroll
  for (int j = 0; j < P; ++j) {
    const int at = (j * 32 + static_cast<int>(threadIdx.x) % 32) * 8;
    if (at < width) f(j, at);
  }
}

template <int P>
__global__ void __launch_bounds__(kThreads)
    forward_kernel(const __grid_constant__ RowNorm p, const __grid_constant__ RowNormForward f) {
  begin();
  const long long row = static_cast<long long>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (row >= p.rows) return;
  Row<P> x = load_row<P>(f.x, row, p.width);
  const float n = static_cast<float>(p.width);
  float sum = 0, squares = 0;
  if (p.centred) {
    each_pack<P>(p.width, [&](int j, int) {
#pragma unroll
      for (int k = 0; k < 8; ++k) sum += x.packs[j].at[k];
    });
    sum = warp_reduce(sum, Plus{});
  }
  const float mean = sum / n;
  each_pack<P>(p.width, [&](int j, int) {
#pragma unroll
    for (int k = 0; k < 8; ++k) squares += (x.packs[j].at[k] - mean) * (x.packs[j].at[k] - mean);
  });
  const float var = warp_reduce(squares, Plus{}) / n, rstd = 1.f / sqrtf(var + p.eps);
  if (threadIdx.x % 32 == 0) {
    if (f.mean) f.mean[row] = mean;
    f.var[row] = var;
  }
  each_pack<P>(p.width, [&](int j, int at) {
    const Eight w = f.weight ? load_eight({f.weight, Real::f32}, at) : Eight{1, 1, 1, 1, 1, 1, 1, 1};
    const Eight b = f.bias ? load_eight({f.bias, Real::f32}, at) : Eight{};
#pragma unroll
    for (int k = 0; k < 8; ++k) x.packs[j].at[k] = (x.packs[j].at[k] - mean) * rstd * w.at[k] + b.at[k];
    store_eight(f.y, row * p.width + at, x.packs[j]);
  });
}

// Bytes of a lane's next row are copied into shared memory while it works on the one before: each lane takes what it
// fetched itself. Arrays that begin elsewhere than at a multiple of 16 bytes are read when they are needed.
__device__ __forceinline__ int bytes_of(Real kind) { return kind == Real::f32 ? 4 : 2; }

template <int P>
__device__ __forceinline__ void fetch_row(unsigned char* to, const Reals& x, long long row, int width) {
  const int size = bytes_of(x.kind);
  const char* from = static_cast<const char*>(x.data) + row * width * size;
#pragma unroll
  for (int j = 0; j < P; ++j) {
    const int at = (j * 32 + static_cast<int>(threadIdx.x) % 32) * 8;
    if (at >= width) continue;
    for (int part = 0; part < 8 * size; part += 16) {
      const unsigned shared = static_cast<unsigned>(__cvta_generic_to_shared(to + at * size + part));
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(from + at * size + part) : "memory");
    }
  }
}
__device__ __forceinline__ void end_fetch() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int Left>
__device__ __forceinline__ void wait_fetched() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
}

constexpr int kStages = 2;

// Blocks take turns at the rows and keep the sums of their columns: parts [blocks, 2, width] of dweight and dbias.
template <int P>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(const __grid_constant__ RowNorm p, const __grid_constant__ RowNormBackward b, float* parts) {
  begin();
  // Rows fetched, [warps, stages, x and dy]; then sums of columns [warps, 2, width].
  extern __shared__ __align__(16) unsigned char memory[];
  const float n = static_cast<float>(p.width);
  const bool ahead = by_sixteen(b.x.data) && by_sixteen(b.dy.data);
  const int x_bytes = p.width * bytes_of(b.x.kind), stage_bytes = x_bytes + p.width * bytes_of(b.dy.kind);
  unsigned char* ring = memory + static_cast<int>(threadIdx.x) / 32 * kStages * stage_bytes;
  const long long step = static_cast<long long>(gridDim.x) * kWarps;
  const auto fetch = [&](long long row, int stage) {
    if (ahead && row < p.rows) {
      fetch_row<P>(ring + stage * stage_bytes, b.x, row, p.width);
      fetch_row<P>(ring + stage * stage_bytes + x_bytes, b.dy, row, p.width);
    }
    end_fetch();
  };
  Eight dots[P], sums[P];
#pragma unroll
  for (int j = 0; j < P; ++j) dots[j] = sums[j] = Eight{};
  const long long first_row = static_cast<long long>(blockIdx.x) * kWarps + threadIdx.x / 32;
  fetch(first_row, 0);
  for (long long row = first_row, turn = 0; row < p.rows; row += step, turn ^= 1) {
    fetch(row + step, static_cast<int>(turn) ^ 1);
    const float mean = b.mean ? b.mean[row] : 0.f, rstd = 1.f / sqrtf(b.var[row] + p.eps);
    Row<P> x, g;
    if (ahead) {
      wait_fetched<1>();
      const unsigned char* at = ring + turn * stage_bytes;
      x = load_row<P>({at, b.x.kind}, 0, p.width);
      g = load_row<P>({at + x_bytes, b.dy.kind}, 0, p.width);
    } else {
      x = load_row<P>(b.x, row, p.width);
      g = load_row<P>(b.dy, row, p.width);
    }
    float sum = 0, dot = 0;
    each_pack<P>(p.width, [&](int j, int at) {
      const Eight w = b.weight ? load_eight({b.weight, Real::f32}, at) : Eight{1, 1, 1, 1, 1, 1, 1, 1};
#pragma unroll
      for (int k = 0; k < 8; ++k) {
        float& v = x.packs[j].at[k];
        float& slope = g.packs[j].at[k];
        v = (v - mean) * rstd;
        dots[j].at[k] += slope * v;
        sums[j].at[k] += slope;
        slope *= w.at[k];
        sum += slope;
        dot += slope * v;
      }
    });
    sum = p.centred ? warp_reduce(sum, Plus{}) / n : 0.f;
    dot = warp_reduce(dot, Plus{}) / n;
    each_pack<P>(p.width, [&](int j, int at) {
#pragma unroll
      for (int k = 0; k < 8; ++k) g.packs[j].at[k] = rstd * (g.packs[j].at[k] - sum - x.packs[j].at[k] * dot);
      store_eight(b.dx, row * p.width + at, g.packs[j]);
    });
  }
  if (!b.dweight) return;
  // Each warp leaves its sums in shared memory, where rows fetched lay; then a thread adds those of a column.
  wait_fetched<0>();
  __syncthreads();
  float* shared = reinterpret_cast<float*>(memory);
  float* own = shared + threadIdx.x / 32 * 2 * p.width;
  each_pack<P>(p.width, [&](int j, int at) {
    store_eight({own, Real::f32}, at, dots[j]);
    store_eight({own, Real::f32}, p.width + at, sums[j]);
  });
  __syncthreads();
  for (int i = static_cast<int>(threadIdx.x); i < 2 * p.width; i += kThreads) {
    float sum = 0;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) sum += shared[warp * 2 * p.width + i];
    parts[2ll * blockIdx.x * p.width + i] = sum;
  }
}

__global__ void __launch_bounds__(1024)
    weights_kernel(const float* parts, int count, int width, float* dweight, float* dbias) {
  begin();
  __shared__ float shared[32][33];
  const int column = static_cast<int>(blockIdx.x) * 32 + static_cast<int>(threadIdx.x);
  float* to = blockIdx.y == 0 ? dweight : dbias;
  if (!to) return;
  const float total = sum_of_parts(parts, count, width, column, static_cast<int>(blockIdx.y), shared);
  if (threadIdx.y == 0 && column < width) to[column] = total;
}

template <class Use>
cudaError_t by_packs(int width, Use&& use) {
  if (width <= 256) return use(forward_kernel<1>, backward_kernel<1>);
  if (width <= 512) return use(forward_kernel<2>, backward_kernel<2>);
  if (width <= 768) return use(forward_kernel<3>, backward_kernel<3>);
  return use(forward_kernel<4>, backward_kernel<4>);
}

int stage_bytes(const RowNorm& norm, Real x, Real dy) {
  return norm.width * ((x == Real::f32 ? 4 : 2) + (dy == Real::f32 ? 4 : 2));
}
unsigned backward_bytes(const RowNorm& norm, Real x, Real dy) {
  return static_cast<unsigned>(kWarps * kStages * stage_bytes(norm, x, dy));  // no less than the sums take
}

unsigned backward_blocks(const RowNorm& norm) {
  const unsigned wanted = blocks_for(norm.rows, kWarps);
  return wanted < kBackwardBlocks ? wanted : kBackwardBlocks;
}

}  // namespace

bool takes_rows(const RowNorm& norm) { return norm.rows > 0 && norm.width % 8 == 0 && norm.width <= kMostWidth; }

cudaError_t load_row_norm() {
  for (const int width : {256, 512, 768, 1024}) {
    const cudaError_t status = by_packs(width, [](auto* forward, auto* backward) {
      for (const cudaError_t loaded :
           {load(forward), load(backward),
            cudaFuncSetAttribute(backward, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                 static_cast<int>(backward_bytes({1, kMostWidth, 0.f, true}, Real::f32, Real::f32)))}) {
        if (loaded != cudaSuccess) return loaded;
      }
      return cudaSuccess;
    });
    if (status != cudaSuccess) return status;
  }
  return load(weights_kernel);
}

cudaError_t launch_row_norm(const RowNorm& norm, const RowNormForward& f, cudaStream_t stream) {
  const LaunchShape shape{dim3(blocks_for(norm.rows, kWarps)), dim3(kThreads)};
  return by_packs(norm.width, [&](auto* forward, auto*) { return launch(forward, shape, stream, norm, f); });
}

long long row_norm_scratch(const RowNorm& norm) { return 2ll * backward_blocks(norm) * norm.width; }

cudaError_t launch_row_norm_backward(const RowNorm& norm, const RowNormBackward& b, float* scratch,
                                     cudaStream_t stream) {
  const unsigned blocks = backward_blocks(norm);
  const LaunchShape shape{dim3(blocks), dim3(kThreads), backward_bytes(norm, b.x.kind, b.dy.kind)};
  const cudaError_t status =
      by_packs(norm.width, [&](auto*, auto* backward) { return launch(backward, shape, stream, norm, b, scratch); });
  if (status != cudaSuccess || !b.dweight) return status;
  return launch(weights_kernel, {dim3(blocks_for(norm.width, 32), 2), dim3(32, 32)}, stream, scratch,
                static_cast<int>(blocks), norm.width, b.dweight, b.dbias);
}

}  // namespace starling::device
