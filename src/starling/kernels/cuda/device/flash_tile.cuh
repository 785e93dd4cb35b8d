#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <type_traits>

#include "starling/kernels/cuda/device/real.cuh"

// Tiles [rows, D] of 16-bit floats in shared memory, products of them by the tensor cores of a warp, and copies into
// them. Sixteen bytes are a chunk; chunks of a row are permuted so that eight rows of one chunk meet no bank twice.
namespace starling::device {

template <int D>
__device__ __forceinline__ int chunk_at(int row, int chunk) {
  constexpr int kChunks = D / 8;
  return row * kChunks + (kChunks >= 8 ? chunk ^ (row & 7) : chunk ^ ((row >> 1) & 3));
}

__device__ __forceinline__ unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

__device__ __forceinline__ void load_matrices(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}
__device__ __forceinline__ void load_transposed(unsigned (&r)[4], unsigned address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(address));
}

template <class T>
__device__ __forceinline__ void multiply(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1);
template <>
__device__ __forceinline__ void multiply<__nv_bfloat16>(float (&c)[4], const unsigned (&a)[4], unsigned b0,
                                                        unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
template <>
__device__ __forceinline__ void multiply<__half>(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

template <class T>
__device__ __forceinline__ unsigned pack_two(float low, float high) {
  if constexpr (std::is_same_v<T, __half>) {
    return pack_f16(low, high);
  } else {
    return pack_bf16(low, high);
  }
}

// Sums of a warp's 16 · M rows by 8 · N columns, as the tensor cores hold them: element [m][n][e] of a lane is row
// m · 16 + lane / 4 + e / 2 · 8, column n · 8 + lane % 4 · 2 + e % 2.
template <int M, int N>
using Sums = float[M][N][4];

template <int M, int N>
__device__ __forceinline__ void clear(Sums<M, N>& sums) {
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
      for (int e = 0; e < 4; ++e) sums[m][n][e] = 0;
    }
  }
}

// sums += a[first + row] · b[column]ᵀ over D.
template <class T, int D, int M, int N>
__device__ __forceinline__ void add_scores(Sums<M, N>& sums, const T* a, int first, const T* b) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int k = 0; k < D / 16; ++k) {
    unsigned rows[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m) {
      const int row = first + m * 16 + (lane & 15);
      load_matrices(rows[m], shared_address(a + chunk_at<D>(row, 2 * k + (lane >> 4)) * 8));
    }
#pragma unroll
    for (int n = 0; n < N; n += 2) {
      unsigned columns[4];
      const int row = n * 8 + (lane & 7) + ((lane >> 4) << 3);
      load_matrices(columns, shared_address(b + chunk_at<D>(row, 2 * k + ((lane >> 3) & 1)) * 8));
#pragma unroll
      for (int m = 0; m < M; ++m) {
        multiply<T>(sums[m][n], rows[m], columns[0], columns[1]);
        multiply<T>(sums[m][n + 1], rows[m], columns[2], columns[3]);
      }
    }
  }
}

// sums += weights · b, weights being a warp's sums rounded to T.
template <class T, int D, int M, int N>
__device__ __forceinline__ void add_weighted(Sums<M, D / 8>& sums, const Sums<M, N>& weights, const T* b) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int k = 0; k < N / 2; ++k) {
    unsigned rows[M][4];
#pragma unroll
    for (int m = 0; m < M; ++m) {
      const auto &low = weights[m][2 * k], &high = weights[m][2 * k + 1];
      rows[m][0] = pack_two<T>(low[0], low[1]);
      rows[m][1] = pack_two<T>(low[2], low[3]);
      rows[m][2] = pack_two<T>(high[0], high[1]);
      rows[m][3] = pack_two<T>(high[2], high[3]);
    }
#pragma unroll
    for (int n = 0; n < D / 8; n += 2) {
      unsigned columns[4];
      const int row = k * 16 + (lane & 15);
      load_transposed(columns, shared_address(b + chunk_at<D>(row, n + (lane >> 4)) * 8));
#pragma unroll
      for (int m = 0; m < M; ++m) {
        multiply<T>(sums[m][n], rows[m], columns[0], columns[1]);
        multiply<T>(sums[m][n + 1], rows[m], columns[2], columns[3]);
      }
    }
  }
}

// Copies rows first … of a matrix into a tile without waiting; rows from `count` on are 0.
template <class T, int D, int Rows, int Threads>
__device__ __forceinline__ void fetch_tile(T* tile, const T* from, long long stride, int first, int count) {
  constexpr int kChunks = D / 8;
  const bool whole = reinterpret_cast<unsigned long long>(from) % 16 == 0 && stride % 8 == 0;
#pragma unroll
  for (int i = static_cast<int>(threadIdx.x); i < Rows * kChunks; i += Threads) {
    const int row = i / kChunks, chunk = i % kChunks;
    const bool there = first + row < count;
    const T* source = from + (there ? (first + row) * stride + chunk * 8 : 0);
    T* to = tile + chunk_at<D>(row, chunk) * 8;
    if (whole) {
      asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(source),
                   "r"(there ? 16 : 0));
    } else {
#pragma unroll
      for (int k = 0; k < 8; ++k) to[k] = there ? source[k] : T(0.f);
    }
  }
}
__device__ __forceinline__ void end_fetch() { asm volatile("cp.async.commit_group;"); }
template <int Left>
__device__ __forceinline__ void wait_fetched() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Left) : "memory");
}

// Writes a warp's sums, times `scale`, to rows first … of a matrix.
template <class T, int D, int M>
__device__ __forceinline__ void write_rows(T* to, long long stride, const Sums<M, D / 8>& sums, int first, int count,
                                           float scale) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int m = 0; m < M; ++m) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int row = first + m * 16 + lane / 4 + half * 8;
      if (row >= count) continue;
#pragma unroll
      for (int n = 0; n < D / 8; ++n) {
        const unsigned two = pack_two<T>(sums[m][n][2 * half] * scale, sums[m][n][2 * half + 1] * scale);
        *reinterpret_cast<unsigned*>(to + row * stride + n * 8 + lane % 4 * 2) = two;
      }
    }
  }
}

}  // namespace starling::device
