#include "starling/kernels/cuda/device/launch.cuh"
#include "starling/kernels/cuda/device/reduce.h"

namespace starling::device {
namespace {

constexpr int kThreads = 256;
constexpr long long kPiece = 1 << 14;  // terms per block of a long row

struct Joined {
  Reduction reduction;
  __device__ float nothing() const { return reduction == Reduction::sum ? 0.f : -INFINITY; }
  __device__ float operator()(float a, float b) const {
    return reduction == Reduction::sum ? Plus{}(a, b) : Larger{}(a, b);
  }
};

// One block per piece of a row: rows [terms], split into gridDim.x pieces of `piece` terms; y [rows, pieces].
__global__ void __launch_bounds__(kThreads)
    rows_kernel(const float* x, float* y, long long terms, long long piece, Reduction reduction, float scale) {
  begin();
  __shared__ float shared[32];
  const Joined join{reduction};
  const float* row = x + static_cast<long long>(blockIdx.y) * terms;
  const long long first = blockIdx.x * piece, last = min(first + piece, terms);
  float total = join.nothing();
  for (long long i = first + threadIdx.x; i < last; i += kThreads) total = join(total, row[i]);
  total = block_reduce(total, join.nothing(), shared, join);
  if (threadIdx.x == 0) y[static_cast<long long>(blockIdx.y) * gridDim.x + blockIdx.x] = total * scale;
}

// 32 columns per block; its 8 rows of threads share the terms.
__global__ void __launch_bounds__(kThreads)
    columns_kernel(const float* x, float* y, long long terms, long long inner, Reduction reduction, float scale) {
  begin();
  __shared__ float shared[8][33];
  const Joined join{reduction};
  const long long column = static_cast<long long>(blockIdx.x) * 32 + threadIdx.x;
  float total = join.nothing();
  if (column < inner) {
    const float* at = x + static_cast<long long>(blockIdx.y) * terms * inner + column;
#pragma unroll 8
    for (long long i = threadIdx.y; i < terms; i += 8) total = join(total, at[i * inner]);
  }
  shared[threadIdx.y][threadIdx.x] = total;
  __syncthreads();
  if (threadIdx.y > 0 || column >= inner) return;
#pragma unroll
  for (int i = 1; i < 8; ++i) total = join(total, shared[i][threadIdx.x]);
  y[static_cast<long long>(blockIdx.y) * inner + column] = total * scale;
}

__global__ void __launch_bounds__(kThreads) any_kernel(const __grid_constant__ ReduceAny p, const float* x, float* y) {
  begin();
  const Joined join{p.reduction};
  const long long output = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x;
  if (output >= p.outputs) return;
  const auto place = [](long long index, int rank, const long long* size, const long long* stride) {
    long long at = 0;
    for (int d = rank - 1; d >= 0; --d) {
      at += index % size[d] * stride[d];
      index /= size[d];
    }
    return at;
  };
  const float* base = x + place(output, p.kept_rank, p.kept_size, p.kept_stride);
  float total = join.nothing();
  for (long long i = 0; i < p.terms; ++i)
    total = join(total, base[place(i, p.reduced_rank, p.reduced_size, p.reduced_stride)]);
  y[output] = total * p.scale;
}

__global__ void __launch_bounds__(kThreads)
    squared_error_kernel(const float* a, const float* b, float* y, long long n) {
  begin();
  __shared__ float shared[32];
  float total = 0;
  for (long long i = static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x; i < n;
       i += static_cast<long long>(gridDim.x) * kThreads) {
    const float d = a[i] - b[i];
    total += d * d;
  }
  total = block_reduce(total, 0.f, shared, Plus{});
  if (threadIdx.x == 0) y[blockIdx.x] = total;
}

cudaError_t launch_rows(const float* x, float* y, long long rows, long long terms, long long piece, Reduction reduction,
                        float scale, cudaStream_t stream) {
  const unsigned pieces = terms > 0 ? blocks_for(terms, static_cast<int>(piece)) : 1;
  // Limit of the grid's second dimension: 65535 rows.
  for (long long first = 0; first < rows; first += 65535) {
    const auto count = static_cast<unsigned>(rows - first < 65535 ? rows - first : 65535);
    const cudaError_t status = launch(rows_kernel, {dim3(pieces, count), dim3(kThreads)}, stream, x + first * terms,
                                      y + first * pieces, terms, piece, reduction, scale);
    if (status != cudaSuccess) return status;
  }
  return cudaSuccess;
}

bool is_long(const Reduce& r) { return r.inner == 1 && r.terms > 4 * kPiece; }
long long pieces_of(long long terms) { return (terms + kPiece - 1) / kPiece; }

}  // namespace

long long reduce_pieces(const Reduce& r) { return is_long(r) ? r.outer * pieces_of(r.terms) : 0; }

cudaError_t load_reduce() {
  const cudaError_t status = load(rows_kernel);
  return status == cudaSuccess ? load(columns_kernel) : status;
}

cudaError_t launch_reduce(const Reduce& r, const float* x, float* y, float* scratch, cudaStream_t stream) {
  if (r.inner > 1) {
    for (long long first = 0; first < r.outer; first += 65535) {
      const auto count = static_cast<unsigned>(r.outer - first < 65535 ? r.outer - first : 65535);
      const cudaError_t status =
          launch(columns_kernel, {dim3(blocks_for(r.inner, 32), count), dim3(32, 8)}, stream,
                 x + first * r.terms * r.inner, y + first * r.inner, r.terms, r.inner, r.reduction, r.scale);
      if (status != cudaSuccess) return status;
    }
    return cudaSuccess;
  }
  if (!is_long(r)) return launch_rows(x, y, r.outer, r.terms, r.terms > 0 ? r.terms : 1, r.reduction, r.scale, stream);
  const cudaError_t status = launch_rows(x, scratch, r.outer, r.terms, kPiece, r.reduction, 1.f, stream);
  if (status != cudaSuccess) return status;
  const long long pieces = pieces_of(r.terms);
  return launch_rows(scratch, y, r.outer, pieces, pieces, r.reduction, r.scale, stream);
}

cudaError_t load_reduce_any() { return load(any_kernel); }

cudaError_t launch_reduce_any(const ReduceAny& reduce, const float* x, float* y, cudaStream_t stream) {
  return launch(any_kernel, {dim3(blocks_for(reduce.outputs, kThreads)), dim3(kThreads)}, stream, reduce, x, y);
}

cudaError_t load_squared_error() {
  const cudaError_t status = load(squared_error_kernel);
  return status == cudaSuccess ? load_reduce() : status;
}

cudaError_t launch_squared_error(const float* a, const float* b, float* sum, long long n, float* scratch,
                                 cudaStream_t stream) {
  const unsigned wanted = blocks_for(n, kThreads * 8);
  const unsigned pieces = wanted < 1 ? 1 : wanted > kErrorPieces ? kErrorPieces : wanted;
  const cudaError_t status =
      launch(squared_error_kernel, {dim3(pieces), dim3(kThreads)}, stream, a, b, pieces == 1 ? sum : scratch, n);
  if (status != cudaSuccess || pieces == 1) return status;
  return launch_rows(scratch, sum, 1, pieces, pieces, Reduction::sum, 1.f, stream);
}

}  // namespace starling::device
