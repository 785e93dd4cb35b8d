#pragma once

#include "starling/ops/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct Conv2dAttrs {
  Pair stride{1, 1};
  Pair padding{0, 0};
  Pair dilation{1, 1};
  std::int64_t groups = 1;
  Symbol activation{};  // applied to the result: none (empty), relu, tanh, sigmoid
  static AttrFields fields() {
    return {field("stride", &Conv2dAttrs::stride), field("padding", &Conv2dAttrs::padding),
            field("dilation", &Conv2dAttrs::dilation), field("groups", &Conv2dAttrs::groups),
            field("activation", &Conv2dAttrs::activation)};
  }
};

// x [n, c, h, w] with weight [out, c / groups, kh, kw] and bias [out] → [n, out, oh, ow].
Tensor conv2d(const Tensor& x, const Tensor& weight, const Tensor& bias = {}, const Conv2dAttrs& attrs = {});

struct Conv2dGradAttrs {
  Shape shape{};  // of the gradient: x's or weight's
  Pair stride{1, 1};
  Pair padding{0, 0};
  Pair dilation{1, 1};
  std::int64_t groups = 1;
  static AttrFields fields() {
    return {field("shape", &Conv2dGradAttrs::shape), field("stride", &Conv2dGradAttrs::stride),
            field("padding", &Conv2dGradAttrs::padding), field("dilation", &Conv2dGradAttrs::dilation),
            field("groups", &Conv2dGradAttrs::groups)};
  }
};
Tensor conv2d_backward_input(const Tensor& dy, const Tensor& weight, const Conv2dGradAttrs& attrs);
Tensor conv2d_backward_weight(const Tensor& dy, const Tensor& x, const Conv2dGradAttrs& attrs);

// Size of the result along one dimension; throws when the window does not fit.
std::int64_t window_count(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                          std::int64_t dilation, const char* who);

}  // namespace starling
