#pragma once

#include "starling/ops/def/attrs.h"

namespace starling::op {

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

struct LocalConv2dGradAttrs {
  Shape shape;  // of the gradient
  Pair kernel{1, 1};
  Pair stride{1, 1};
  Pair padding{0, 0};
  Pair dilation{1, 1};
  static AttrFields fields() {
    return {field("shape", &LocalConv2dGradAttrs::shape), field("kernel", &LocalConv2dGradAttrs::kernel),
            field("stride", &LocalConv2dGradAttrs::stride), field("padding", &LocalConv2dGradAttrs::padding),
            field("dilation", &LocalConv2dGradAttrs::dilation)};
  }
};

}  // namespace starling::op
