#pragma once

#include <cstddef>

#include "starling/kernels/cpu/conv_shape.h"

namespace starling {

// 3 × 3 convolutions at stride 1 by Winograd's tiles (winograd.h), where there are channels enough to pay for the
// moves: 2.25 times fewer multiply-adds. An infinity or a NaN in the input spreads to its whole tile of 2 × 2. Nothing
// is allocated; scratch is 64-byte aligned. The same shape, threads and data give the same bits.
bool winograd_pays(const Conv2dShape& shape, int threads);

std::size_t winograd_forward_scratch(const Conv2dShape& shape, int threads);
std::size_t winograd_backward_data_scratch(const Conv2dShape& shape, int threads);
std::size_t winograd_backward_weight_scratch(const Conv2dShape& shape, int threads);

// y = conv(x, w) + bias, through a relu if asked; bias may be null.
void winograd_forward(const Conv2dShape& shape, const float* x, const float* w, const float* bias, bool relu, float* y,
                      void* scratch, int threads);
void winograd_backward_data(const Conv2dShape& shape, const float* dy, const float* w, float* dx, void* scratch,
                            int threads);
void winograd_backward_weight(const Conv2dShape& shape, const float* x, const float* dy, float* dw, void* scratch,
                              int threads);

}  // namespace starling
