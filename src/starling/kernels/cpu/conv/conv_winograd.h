#pragma once

#include <cstddef>
#include <optional>

#include "starling/kernels/cpu/conv/conv_shape.h"
#include "starling/kernels/cpu/conv/winograd.h"

namespace starling::kernels {

// Winograd convolutions (winograd.h), 3 × 3 and 5 × 5 at stride 1, for enough channels to pay for the transforms. An
// infinity or a NaN in the input spreads over its tile. Allocates nothing; scratch is 64-byte aligned. The same shape,
// scheme, threads and data give the same bits.

// Scheme expected to be fastest; none if plain products are.
std::optional<WinogradScheme> winograd_scheme(const Conv2dShape& shape, int threads);

std::size_t winograd_forward_scratch(const Conv2dShape& shape, WinogradScheme scheme, int threads);
std::size_t winograd_backward_data_scratch(const Conv2dShape& shape, WinogradScheme scheme, int threads);
std::size_t winograd_backward_weight_scratch(const Conv2dShape& shape, WinogradScheme scheme, int threads);

// y = conv(x, w) + bias, with an optional relu; bias may be null.
void winograd_forward(const Conv2dShape& shape, WinogradScheme scheme, const float* x, const float* w,
                      const float* bias, bool relu, float* y, void* scratch, int threads);
void winograd_backward_data(const Conv2dShape& shape, WinogradScheme scheme, const float* dy, const float* w, float* dx,
                            void* scratch, int threads);
void winograd_backward_weight(const Conv2dShape& shape, WinogradScheme scheme, const float* x, const float* dy,
                              float* dw, void* scratch, int threads);

}  // namespace starling::kernels
