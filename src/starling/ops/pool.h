#pragma once

#include "starling/ops/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct Pool2dAttrs {
  Pair kernel{2, 2};
  Pair stride{2, 2};
  Pair padding{0, 0};
  static AttrFields fields() {
    return {field("kernel", &Pool2dAttrs::kernel), field("stride", &Pool2dAttrs::stride),
            field("padding", &Pool2dAttrs::padding)};
  }
};
Tensor max_pool2d(const Tensor& x, const Pool2dAttrs& attrs = {});  // padding never wins; the first of equals does
Tensor avg_pool2d(const Tensor& x, const Pool2dAttrs& attrs = {});  // padding counts as zeros

struct Pool2dGradAttrs {
  Shape shape{};  // of x
  Pair kernel{2, 2};
  Pair stride{2, 2};
  Pair padding{0, 0};
  static AttrFields fields() {
    return {field("shape", &Pool2dGradAttrs::shape), field("kernel", &Pool2dGradAttrs::kernel),
            field("stride", &Pool2dGradAttrs::stride), field("padding", &Pool2dGradAttrs::padding)};
  }
};

}  // namespace starling
