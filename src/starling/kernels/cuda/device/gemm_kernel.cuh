#pragma once

#include <cooperative_groups.h>

#include "starling/kernels/cuda/device/gemm_tile.cuh"

namespace starling::device {

namespace cg = cooperative_groups;

// Writes the partial results of a warp to its slab of shared memory.
template <class Tile>
__device__ __forceinline__ void store_sums(float* slab, const float (&sums)[Tile::kMmaM][Tile::kMmaN][4], int m0,
                                           int n0) {
  const int group = static_cast<int>(threadIdx.x) % 32 / 4, lane = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int i = 0; i < Tile::kMmaM; ++i) {
#pragma unroll
    for (int j = 0; j < Tile::kMmaN; ++j) {
      float* at = slab + (m0 + i * 16 + group) * (Tile::kN + 4) + n0 + j * 8 + lane * 2;
      *reinterpret_cast<float2*>(at) = make_float2(sums[i][j][0], sums[i][j][1]);
      *reinterpret_cast<float2*>(at + 8 * (Tile::kN + 4)) = make_float2(sums[i][j][2], sums[i][j][3]);
    }
  }
}

template <class Tile>
__device__ __forceinline__ void add_slabs(Four& total, const float* at) {
#pragma unroll
  for (int slab = 0; slab < Tile::kWarpsK; ++slab) {
    const float4 part = *reinterpret_cast<const float4*>(at + slab * Tile::kSlab);
    total.at[0] += part.x, total.at[1] += part.y, total.at[2] += part.z, total.at[3] += part.w;
  }
}

// Position of a thread's i-th piece of the epilogue in the result.
template <class Tile>
struct Piece {
  int row_in, col_in, row, col, count;
  bool mine;
  __device__ Piece(const Gemm& p, int i, int m0, int n0, int rank, int split) {
    const int e = static_cast<int>(threadIdx.x) + i * Tile::kThreads;
    row_in = e / (Tile::kN / 4), col_in = e % (Tile::kN / 4) * 4;
    row = m0 + row_in, col = n0 + col_in;
    count = min(4, p.n - col);
    mine = e < Tile::kM * Tile::kN / 4 && e % split == rank && row < p.m && count > 0;
  }
};

template <class Tile, bool TransA, bool TransB, int Width>
__global__ void __launch_bounds__(Tile::kThreads) gemm_kernel(const __grid_constant__ Gemm p) {
  using FormatA = StageFormat<Tile::kM, Tile::kK, !TransA>;
  using FormatB = StageFormat<Tile::kN, Tile::kK, TransB>;
  constexpr int kStage = FormatA::kFloats + FormatB::kFloats;
  extern __shared__ __align__(16) float shared[];
  begin();
  const int m0 = static_cast<int>(blockIdx.y) * Tile::kM, n0 = static_cast<int>(blockIdx.x) * Tile::kN;
  const int rank = static_cast<int>(blockIdx.z), split = static_cast<int>(gridDim.z);
  const int stages = (p.k + Tile::kK - 1) / Tile::kK, share = (stages + split - 1) / split;
  const int first = rank * share, count = max(0, min(stages - first, share));
  const auto load = [&](int i) {
    if (i < count) {
      float* stage = shared + i % Tile::kStages * kStage;
      load_stage<FormatA, !TransA, Width, Tile::kThreads>(stage, p.a, p.m, p.k, m0, (first + i) * Tile::kK);
      load_stage<FormatB, TransB, Width, Tile::kThreads>(stage + FormatA::kFloats, p.b, p.n, p.k, n0,
                                                         (first + i) * Tile::kK);
    }
    asm volatile("cp.async.commit_group;");
  };
#pragma unroll
  for (int i = 0; i < Tile::kStages - 1; ++i) load(i);

  EpilogueOperands operands[Tile::kFours];
  const float lr = p.epilogue == Epilogue::sgd ? *p.lr : 0.f;
#pragma unroll
  for (int i = 0; i < Tile::kFours; ++i) {
    const Piece<Tile> piece(p, i, m0, n0, rank, split);
    if (piece.mine) operands[i] = load_operands(p, piece.row, piece.col, piece.count, Width == 4 && p.n % 4 == 0);
  }

  const int warp = static_cast<int>(threadIdx.x) / 32, warp_k = warp / (Tile::kWarpsM * Tile::kWarpsN);
  const int warp_m = warp % Tile::kWarpsM * Tile::kMmaM * 16,
            warp_n = warp / Tile::kWarpsM % Tile::kWarpsN * Tile::kMmaN * 8;
  float sums[Tile::kMmaM][Tile::kMmaN][4] = {};
  for (int i = 0; i < count; ++i) {
    asm volatile("cp.async.wait_group %0;" ::"n"(Tile::kStages - 2));
    __syncthreads();
    load(i + Tile::kStages - 1);
    const float* stage = shared + i % Tile::kStages * kStage;
    multiply_stage<Tile, FormatA, FormatB>(sums, stage, stage + FormatA::kFloats, warp_m, warp_n,
                                           warp_k * Tile::kSteps * 8);
  }
  asm volatile("cp.async.wait_all;");
  __syncthreads();
  store_sums<Tile>(shared + warp_k * Tile::kSlab, sums, warp_m, warp_n);
  if (split > 1)
    cg::this_cluster().sync();
  else
    __syncthreads();

#pragma unroll
  for (int i = 0; i < Tile::kFours; ++i) {
    const Piece<Tile> piece(p, i, m0, n0, rank, split);
    if (!piece.mine) continue;
    float* at = shared + piece.row_in * (Tile::kN + 4) + piece.col_in;
    Four total = {};
    if (split == 1)
      add_slabs<Tile>(total, at);
    else
      for (int other = 0; other < split; ++other) add_slabs<Tile>(total, cg::this_cluster().map_shared_rank(at, other));
    finish_four(p, total, operands[i], lr, piece.row, piece.col, piece.count, Width == 4 && p.n % 4 == 0);
  }
  if (split > 1) cg::this_cluster().sync();  // other blocks may still read this block's sums
}

template <class Tile, bool TransA, bool TransB>
constexpr unsigned shared_bytes() {
  constexpr int stages = Tile::kStages * (StageFormat<Tile::kM, Tile::kK, !TransA>::kFloats +
                                          StageFormat<Tile::kN, Tile::kK, TransB>::kFloats);
  constexpr int slabs = Tile::kWarpsK * Tile::kSlab;
  return static_cast<unsigned>(4 * (stages > slabs ? stages : slabs));
}

// Loads the kernels of one pair of transpose flags for a tile.
template <class Tile, bool TransA, bool TransB>
cudaError_t load_tile() {
  for (auto* kernel : {&gemm_kernel<Tile, TransA, TransB, 4>, &gemm_kernel<Tile, TransA, TransB, 1>}) {
    const cudaError_t status =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes<Tile, TransA, TransB>());
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

template <class Tile, bool TransA, bool TransB>
cudaError_t launch_tile(const Gemm& gemm, int split, bool wide, cudaStream_t stream) {
  const dim3 grid(blocks_for(gemm.n, Tile::kN), blocks_for(gemm.m, Tile::kM), static_cast<unsigned>(split));
  const LaunchShape shape{grid, dim3(Tile::kThreads), shared_bytes<Tile, TransA, TransB>(),
                          static_cast<unsigned>(split)};
  if (wide) return launch(gemm_kernel<Tile, TransA, TransB, 4>, shape, stream, gemm);
  return launch(gemm_kernel<Tile, TransA, TransB, 1>, shape, stream, gemm);
}

using Tile0 = TileShape<16, 16, 128, 1, 1, 8, 4>;
using Tile1 = TileShape<32, 16, 64, 2, 1, 4, 4>;
using Tile2 = TileShape<32, 32, 64, 2, 2, 2, 4>;
using Tile3 = TileShape<64, 16, 64, 4, 1, 2, 4>;
using Tile4 = TileShape<64, 32, 32, 4, 2, 1, 4>;
using Tile5 = TileShape<64, 64, 32, 2, 4, 1, 4>;

template <bool TransA, bool TransB, class F>
cudaError_t with_tile(int tile, F&& f) {
  switch (tile) {
    case 0: return f(Tile0{});
    case 1: return f(Tile1{});
    case 2: return f(Tile2{});
    case 3: return f(Tile3{});
    case 4: return f(Tile4{});
    case 5: return f(Tile5{});
  }
  return cudaErrorInvalidValue;
}

// Kernels of one pair of transpose flags are one translation unit: gemm_nn.cu and the like.
template <bool TransA, bool TransB>
cudaError_t load_format(int tile) {
  return with_tile<TransA, TransB>(tile, [](auto t) { return load_tile<decltype(t), TransA, TransB>(); });
}

template <bool TransA, bool TransB>
cudaError_t launch_format(const Gemm& gemm, GemmCut cut, bool wide, cudaStream_t stream) {
  return with_tile<TransA, TransB>(
      cut.tile, [&](auto t) { return launch_tile<decltype(t), TransA, TransB>(gemm, cut.split, wide, stream); });
}

}  // namespace starling::device
