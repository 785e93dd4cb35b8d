#pragma once

#include "starling/kernels/cuda/device/gemm_epilogue.cuh"
#include "starling/kernels/cuda/device/launch.cuh"

namespace starling::device {

// Block tile of kM × kN elements of the result. Its warps form a grid of kWarpsM × kWarpsN × kWarpsK; those along k
// alternate over the slices of a stage of kK, and their sums are added at the end.
template <int M, int N, int K, int WarpsM, int WarpsN, int WarpsK, int Stages>
struct TileShape {
  static constexpr int kM = M, kN = N, kK = K;
  static constexpr int kWarpsM = WarpsM, kWarpsN = WarpsN, kWarpsK = WarpsK, kStages = Stages;
  static constexpr int kThreads = WarpsM * WarpsN * WarpsK * 32;
  static constexpr int kMmaM = M / WarpsM / 16;                         // mma instructions of a warp along m
  static constexpr int kMmaN = N / WarpsN / 8;                          // mma instructions of a warp along n
  static constexpr int kSteps = K / 8 / WarpsK;                         // mma instructions of a warp along k, per stage
  static constexpr int kFours = (M * N / 4 + kThreads - 1) / kThreads;  // epilogue pieces per thread
  static constexpr int kSlab = M * (N + 4);                             // floats of one partial result
};

// Shared-memory format of a stage: as in global memory, lines of the contiguous dimension, padded so that the 32 lanes
// of a fragment's load hit 32 banks: lines along k differ by 4 banks, lines along the outer dimension by 8 or 24.
template <int Outer, int K, bool KContiguous>
struct StageFormat {
  static constexpr int kLine = KContiguous ? K + 4 : Outer + 8;
  static constexpr int kLines = KContiguous ? Outer : K;
  static constexpr int kWidth = KContiguous ? K : Outer;
  static constexpr int kFloats = kLine * kLines;
  __device__ static int at(int outer, int k) { return KContiguous ? outer * kLine + k : k * kLine + outer; }
};

template <int Bytes>
__device__ __forceinline__ void copy_async(float* to, const float* from, bool exists) {
  const unsigned target = static_cast<unsigned>(__cvta_generic_to_shared(to));
  const int bytes = exists ? Bytes : 0;  // the rest is filled with zeros
  if constexpr (Bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(from), "r"(bytes));
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(target), "l"(from), "r"(bytes));
  }
}

// Copies one stage of an operand: `outer` of `outers` rows or columns from outer0, k from k0. Copies are Width floats
// wide; the contiguous size must be a multiple of that.
template <class Format, bool KContiguous, int Width, int Threads>
__device__ __forceinline__ void load_stage(float* stage, const float* from, int outers, int k, int outer0, int k0) {
  constexpr int kPerLine = Format::kWidth / Width;
  constexpr int kCopies = kPerLine * Format::kLines;
  constexpr int kUnroll = Width == 4 ? 8 : 4;  // more copies in flight cost more registers than they hide latency
#pragma unroll kUnroll
  for (int i = 0; i < (kCopies + Threads - 1) / Threads; ++i) {
    const int copy = static_cast<int>(threadIdx.x) + i * Threads;
    if (kCopies % Threads != 0 && copy >= kCopies) break;
    const int line = copy / kPerLine, place = copy % kPerLine * Width;
    const int outer = outer0 + (KContiguous ? line : place), kk = k0 + (KContiguous ? place : line);
    const bool exists = outer < outers && kk < k;
    const long long at =
        KContiguous ? static_cast<long long>(outer) * k + kk : static_cast<long long>(kk) * outers + outer;
    copy_async<Width * 4>(stage + line * Format::kLine + place, exists ? from + at : from, exists);
  }
}

__device__ __forceinline__ unsigned to_tf32(float x) {
  unsigned bits;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(bits) : "f"(x));
  return bits;
}

__device__ __forceinline__ void mma(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Multiplies one stage of a warp's product. m0, n0 are the warp's position in the block, k0 its first slice.
template <class Tile, class FormatA, class FormatB>
__device__ __forceinline__ void multiply_stage(float (&sums)[Tile::kMmaM][Tile::kMmaN][4], const float* a,
                                               const float* b, int m0, int n0, int k0) {
  const int group = static_cast<int>(threadIdx.x) % 32 / 4, lane = static_cast<int>(threadIdx.x) % 4;
#pragma unroll
  for (int step = 0; step < Tile::kSteps; ++step) {
    const int k = k0 + step * 8 + lane;
    unsigned fa[Tile::kMmaM][4], fb[Tile::kMmaN][2];
#pragma unroll
    for (int i = 0; i < Tile::kMmaM; ++i) {
      const int m = m0 + i * 16 + group;
      fa[i][0] = to_tf32(a[FormatA::at(m, k)]);
      fa[i][1] = to_tf32(a[FormatA::at(m + 8, k)]);
      fa[i][2] = to_tf32(a[FormatA::at(m, k + 4)]);
      fa[i][3] = to_tf32(a[FormatA::at(m + 8, k + 4)]);
    }
#pragma unroll
    for (int j = 0; j < Tile::kMmaN; ++j) {
      const int n = n0 + j * 8 + group;
      fb[j][0] = to_tf32(b[FormatB::at(n, k)]);
      fb[j][1] = to_tf32(b[FormatB::at(n, k + 4)]);
    }
#pragma unroll
    for (int i = 0; i < Tile::kMmaM; ++i) {
#pragma unroll
      for (int j = 0; j < Tile::kMmaN; ++j) mma(sums[i][j], fa[i], fb[j]);
    }
  }
}

}  // namespace starling::device
