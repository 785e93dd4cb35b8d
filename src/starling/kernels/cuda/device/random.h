#pragma once

#include <cuda_runtime.h>

namespace starling::device {

enum class Draw : int { uniform, normal, dropout };

// Random numbers of base/philox.h for a piece of a tensor: element i of the piece has global index first + Σ coordinate
// · stride. `key` is (seed, step) in device memory.
struct Random {
  static constexpr int kMaxRank = 8;
  Draw draw;
  long long n;
  int rank;
  long long size[kMaxRank], stride[kMaxRank];
  unsigned long long first;
  unsigned long long site;
  float shift, scale;  // uniform and normal: shift + scale · number
  float most;          // and no more than this, which rounding would reach
  double keep;         // dropout
};

cudaError_t load_random();
// `x` is used by dropout only; the result may overwrite it.
cudaError_t launch_random(const Random& random, const long long* key, const float* x, float* out, cudaStream_t stream);

}  // namespace starling::device
