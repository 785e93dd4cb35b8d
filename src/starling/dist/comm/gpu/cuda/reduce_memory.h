#pragma once

#include <cuda_runtime.h>

namespace starling::cuda {

// Numbers of dtypes and reductions are those of starling::DType and starling::ReduceOp, given as they are.
inline constexpr int kMostReduced = 64;

struct ReducedSources {
  const void* at[kMostReduced];
  int count;
};

// out[i] = s0[i] . s1[i] …, where out may be one of the sources; accumulates f16 and bf16 in f32 and rounds once.
// Returns the launch's error, or cudaErrorInvalidValue for a dtype or reduction without code.
cudaError_t reduce_memory(int dtype, int reduce, const ReducedSources& sources, void* out, long long count,
                          cudaStream_t stream);

}  // namespace starling::cuda
