#pragma once

#include "starling/ops/def/attrs/conv_transpose.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Transposed convolutions: the gradient of a convolution with these attributes with respect to its input. x [n, c,
// sizes..] with weight [c, out / groups, kernel..] and bias [out] → [n, out, sizes..], each size being (size − 1) ·
// stride − 2 · padding + dilation · (kernel − 1) + output_padding + 1. output_padding, less than the stride, selects
// among the sizes that a convolution would map to this one.

Tensor conv_transpose1d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const op::ConvTranspose1dAttrs& attrs = {});
Tensor conv_transpose2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const op::ConvTranspose2dAttrs& attrs = {});
Tensor conv_transpose3d(const Tensor& x, const Tensor& weight, const Tensor& bias = {},
                        const op::ConvTranspose3dAttrs& attrs = {});

}  // namespace starling
