#pragma once

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling::op {

struct Conv1dAttrs {
  std::int64_t stride = 1;
  std::int64_t padding = 0;
  std::int64_t dilation = 1;
  std::int64_t groups = 1;
  Symbol activation{};  // applied to the result: none (empty), relu, tanh, sigmoid
  static AttrFields fields() {
    return {field("stride", &Conv1dAttrs::stride), field("padding", &Conv1dAttrs::padding),
            field("dilation", &Conv1dAttrs::dilation), field("groups", &Conv1dAttrs::groups),
            field("activation", &Conv1dAttrs::activation)};
  }
};

struct Conv2dAttrs {
  Pair stride{1, 1};
  Pair padding{0, 0};
  Pair dilation{1, 1};
  std::int64_t groups = 1;
  Symbol activation{};
  static AttrFields fields() {
    return {field("stride", &Conv2dAttrs::stride), field("padding", &Conv2dAttrs::padding),
            field("dilation", &Conv2dAttrs::dilation), field("groups", &Conv2dAttrs::groups),
            field("activation", &Conv2dAttrs::activation)};
  }
};

struct Conv3dAttrs {
  Shape stride{1, 1, 1};
  Shape padding{0, 0, 0};
  Shape dilation{1, 1, 1};
  std::int64_t groups = 1;
  Symbol activation{};
  static AttrFields fields() {
    return {field("stride", &Conv3dAttrs::stride), field("padding", &Conv3dAttrs::padding),
            field("dilation", &Conv3dAttrs::dilation), field("groups", &Conv3dAttrs::groups),
            field("activation", &Conv3dAttrs::activation)};
  }
};

struct Conv2dGradAttrs {
  Shape shape{};  // shape of the gradient: x's or weight's
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
struct Conv3dGradAttrs {
  Shape shape{};
  Shape stride{1, 1, 1};
  Shape padding{0, 0, 0};
  Shape dilation{1, 1, 1};
  std::int64_t groups = 1;
  static AttrFields fields() {
    return {field("shape", &Conv3dGradAttrs::shape), field("stride", &Conv3dGradAttrs::stride),
            field("padding", &Conv3dGradAttrs::padding), field("dilation", &Conv3dGradAttrs::dilation),
            field("groups", &Conv3dGradAttrs::groups)};
  }
};
Tensor conv2d_backward_input(const Tensor& dy, const Tensor& weight, const Conv2dGradAttrs& attrs);
Tensor conv2d_backward_weight(const Tensor& dy, const Tensor& x, const Conv2dGradAttrs& attrs);
Tensor conv3d_backward_input(const Tensor& dy, const Tensor& weight, const Conv3dGradAttrs& attrs);
Tensor conv3d_backward_weight(const Tensor& dy, const Tensor& x, const Conv3dGradAttrs& attrs);

// Size of the result along one dimension; throws when the window does not fit.
std::int64_t window_count(std::int64_t size, std::int64_t kernel, std::int64_t stride, std::int64_t padding,
                          std::int64_t dilation, const char* who);

}  // namespace starling::op
