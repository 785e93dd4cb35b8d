#pragma once

#include "starling/ops/def/attrs/local_conv.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Locally connected layer: a convolution with separate weights for every position. x [n, c, h, w] with weight [oh · ow,
// out, c · kh · kw], positions row by row and a window's elements as (channel, kernel row, kernel column), and bias
// [out, oh, ow] → [n, out, oh, ow].
Tensor local_conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const op::LocalConv2dAttrs& attrs);

namespace op {
// The gradients of local_conv2d, one op each: of x, from dy and the weight; of the weight, from dy and x.
Tensor local_conv2d_backward_input(const Tensor& dy, const Tensor& weight, const LocalConv2dGradAttrs& attrs);
Tensor local_conv2d_backward_weight(const Tensor& dy, const Tensor& x, const LocalConv2dGradAttrs& attrs);
}  // namespace op

}  // namespace starling
