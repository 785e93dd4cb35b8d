#pragma once

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct LocalConv2dAttrs {
  Pair kernel{1, 1};
  Pair stride{1, 1};
  Pair padding{0, 0};
  Pair dilation{1, 1};
  static AttrFields fields() {
    return {field("kernel", &LocalConv2dAttrs::kernel), field("stride", &LocalConv2dAttrs::stride),
            field("padding", &LocalConv2dAttrs::padding), field("dilation", &LocalConv2dAttrs::dilation)};
  }
};

// Locally connected layer: a convolution with separate weights for every position. x [n, c, h, w] with weight [oh · ow,
// out, c · kh · kw], positions row by row and a window's elements as (channel, kernel row, kernel column), and bias
// [out, oh, ow] → [n, out, oh, ow].
Tensor local_conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias, const LocalConv2dAttrs& attrs);

}  // namespace starling
