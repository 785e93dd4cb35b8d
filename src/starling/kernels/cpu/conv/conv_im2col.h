#pragma once

#include <cstddef>
#include <cstdint>

#include "starling/kernels/cpu/conv/conv_shape.h"
#include "starling/kernels/cpu/gemm/gemm.h"

namespace starling::kernels {

// im2col convolutions: products of the weights with the taps of one image (or a band of it) at a time, which stay in
// L2. Threads share out images and bands. Allocates nothing; scratch is 64-byte aligned. The same shape, thread count
// and data give the same bits. All throw Error on inconsistent shapes.

std::size_t conv2d_forward_scratch(const Conv2dShape& shape, int threads);
std::size_t conv2d_backward_data_scratch(const Conv2dShape& shape, int threads);
std::size_t conv2d_backward_weight_scratch(const Conv2dShape& shape, int threads);

// y = activation(conv(x, w) + bias); bias [out_channels] may be null.
void conv2d_forward(const Conv2dShape& shape, const float* x, const float* w, const float* bias,
                    GemmActivation activation, float* y, void* scratch, int threads);

// dx = gradient of x, overwritten.
void conv2d_backward_data(const Conv2dShape& shape, const float* dy, const float* w, float* dx, void* scratch,
                          int threads);

// dw (+)= gradient of w; db (+)= gradient of the bias, unless db is null. Each thread sums its images separately; the
// sums are added in thread order.
void conv2d_backward_weight(const Conv2dShape& shape, const float* x, const float* dy, float* dw, float* db,
                            bool accumulate, void* scratch, int threads);

}  // namespace starling::kernels
