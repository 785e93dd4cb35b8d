#pragma once

#include <cuda_runtime.h>

#include "starling/kernels/cuda/device/pool.h"
#include "starling/kernels/cuda/device/real.h"

// Pooling of images whose channels are last in memory, a multiple of 8 of them; floats of any kind.
namespace starling::device {

struct ImagePool {
  int images, channels;
  PoolAxis rows, columns;
};

cudaError_t load_image_pool();
// Largest element of each window and, if `index` is not null, its position in the image.
cudaError_t launch_image_max_pool(const ImagePool& pool, Reals x, RealsOut y, int* index, cudaStream_t stream);
// Mean of each image, and its gradient.
cudaError_t launch_image_mean(const ImagePool& pool, Reals x, RealsOut y, cudaStream_t stream);
cudaError_t launch_image_mean_backward(const ImagePool& pool, Reals dy, RealsOut dx, cudaStream_t stream);

// Σ dy of the windows whose position is an element, for every element, in the order of the windows.
cudaError_t launch_image_max_backward(const ImagePool& pool, Reals dy, const int* index, RealsOut dx,
                                      cudaStream_t stream);

// dy at its positions in images of rows.in · columns.in, summed in f32 in `sums` of that many floats by image and
// channel, then converted. Windows apart from each other are added at once, the others after them, so that sums have
// one order as long as a window reaches over two strides at most, or three where the stride is 1.
cudaError_t launch_image_scatter(const ImagePool& pool, Reals dy, const int* index, float* sums, RealsOut dx,
                                 cudaStream_t stream);

}  // namespace starling::device
