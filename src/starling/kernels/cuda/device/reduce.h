#pragma once

#include <cuda_runtime.h>

namespace starling::device {

enum class Reduction : int { sum, max };

// Reduction of x [outer, terms, inner] → y [outer, inner], times `scale`.
struct Reduce {
  long long outer, terms, inner;
  Reduction reduction;
  float scale;
};

// Long rows are reduced in pieces first; `scratch` holds reduce_pieces(…) floats for them.
long long reduce_pieces(const Reduce& reduce);
cudaError_t load_reduce();
cudaError_t launch_reduce(const Reduce& reduce, const float* x, float* y, float* scratch, cudaStream_t stream);

// Reduction over any axes: the kept strides locate an output's first term, the reduced strides the others.
struct ReduceAny {
  static constexpr int kMaxRank = 8;
  long long outputs, terms;
  int kept_rank, reduced_rank;
  long long kept_size[kMaxRank], kept_stride[kMaxRank], reduced_size[kMaxRank], reduced_stride[kMaxRank];
  Reduction reduction;
  float scale;
};
cudaError_t load_reduce_any();
cudaError_t launch_reduce_any(const ReduceAny& reduce, const float* x, float* y, cudaStream_t stream);

// Σ (a - b)² of n elements; `scratch` holds kErrorPieces floats.
inline constexpr int kErrorPieces = 256;
cudaError_t load_squared_error();
cudaError_t launch_squared_error(const float* a, const float* b, float* sum, long long n, float* scratch,
                                 cudaStream_t stream);

}  // namespace starling::device
