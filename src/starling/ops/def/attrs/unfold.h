#pragma once

#include "starling/ops/def/attrs.h"

namespace starling::op {

struct UnfoldAttrs {
  Pair kernel{1, 1};
  Pair stride{1, 1};
  Pair padding{0, 0};
  Pair dilation{1, 1};
  static AttrFields fields() {
    return {field("kernel", &UnfoldAttrs::kernel), field("stride", &UnfoldAttrs::stride),
            field("padding", &UnfoldAttrs::padding), field("dilation", &UnfoldAttrs::dilation)};
  }
};
struct FoldAttrs {
  Pair size{1, 1};  // height and width of the result
  Pair kernel{1, 1};
  Pair stride{1, 1};
  Pair padding{0, 0};
  Pair dilation{1, 1};
  static AttrFields fields() {
    return {field("size", &FoldAttrs::size), field("kernel", &FoldAttrs::kernel), field("stride", &FoldAttrs::stride),
            field("padding", &FoldAttrs::padding), field("dilation", &FoldAttrs::dilation)};
  }
};

}  // namespace starling::op
