#pragma once

#include <cuda_runtime.h>

namespace starling::device {

// One dimension of the windows of a pooling. `even`: window i is [⌊i · in / out⌋, ⌈(i + 1) · in / out⌉).
struct PoolAxis {
  int in, out, kernel, stride, padding, dilation;
  bool even;
};

struct Pool {
  long long planes;
  PoolAxis axes[3];
  bool include_pad;  // averages: padding counts
  float divisor;     // averages: divisor of the sums; 0: the number of elements
  float power;       // Lp
};

enum class PoolKind : int { max, average, lp };

cudaError_t load_pool(PoolKind kind);
// `index` gets the position of each maximum in its image, if it is not null.
cudaError_t launch_pool(PoolKind kind, const Pool& pool, const float* x, float* y, int* index, cudaStream_t stream);

cudaError_t load_average_backward();
cudaError_t launch_average_backward(const Pool& pool, const float* dy, float* dx, cudaStream_t stream);

// Σ dy of the windows whose position is an element, for every element of images in two dimensions, in the order of the
// windows.
cudaError_t load_max_backward();
cudaError_t launch_max_backward(const Pool& pool, const float* dy, const int* index, float* dx, cudaStream_t stream);

// Sums dy [planes, windows] at positions in images [planes, volume], in the order of the windows, so that every run has
// the same bits. `scratch` holds planes · (volume + windows) ints. Positions outside the image are left out.
struct PoolScatter {
  long long planes, volume, windows;
};
cudaError_t load_pool_scatter();
cudaError_t launch_pool_scatter(const PoolScatter& pool, const float* dy, const int* index, float* dx, int* scratch,
                                cudaStream_t stream);
// y = x at these positions; NaN outside the image.
cudaError_t launch_pool_gather(const PoolScatter& pool, const float* x, const int* index, float* y,
                               cudaStream_t stream);

}  // namespace starling::device
