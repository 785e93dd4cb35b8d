#pragma once

#include <cuda_runtime.h>

// Images of few channels as smaller images of more: what a window of a convolution steps over, rows by columns, lies
// side by side as channels, so that the convolution steps by 1.
namespace starling::device {

// Images [images, channels, rows, columns] at these strides in elements, of 16 bits.
struct FoldStride {
  int images, channels, rows, columns;
  long long strides[4];
  int step_rows, step_columns;        // of the windows
  int padding_rows, padding_columns;  // zeros before the image
  int out_rows, out_columns, wide;    // of the result
};

cudaError_t load_fold_stride();
// to [images, out_rows, out_columns, wide]: channel (a · step_columns + b) · channels + c of a pixel (i, j) is channel
// c of the image's (i · step_rows + a - padding_rows, j · step_columns + b - padding_columns); zero outside the image
// and behind the last of these channels. `wide` is a multiple of 4, and `to` begins at a multiple of 16 bytes.
cudaError_t launch_fold_stride(const FoldStride& fold, const void* x, void* to, cudaStream_t stream);
// The way back: what of `from`, as above, is an element of the image.
cudaError_t launch_unfold_stride(const FoldStride& fold, const void* from, void* x, cudaStream_t stream);

}  // namespace starling::device
