#pragma once

#include "starling/ops/def/attrs/conv.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Convolutions (cross-correlations) in 1, 2 and 3 dimensions. x [n, c, sizes..] with weight [out, c / groups, kernel..]
// and bias [out] → [n, out, sizes..], followed by the activation if one is named. Each size of the result is (size + 2
// · padding − dilation · (kernel − 1) − 1) / stride + 1, rounded down.

Tensor conv1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const op::Conv1dAttrs& attrs = {});
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const op::Conv2dAttrs& attrs = {});
Tensor conv3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const op::Conv3dAttrs& attrs = {});

// Padding that keeps the size at stride 1; throws if the two sides would differ.
std::int64_t same_padding(std::int64_t kernel, std::int64_t dilation = 1);

}  // namespace starling
