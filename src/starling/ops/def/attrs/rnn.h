#pragma once

#include "starling/ops/def/attrs.h"

namespace starling::op {

struct LayerAttrs {
  bool reverse = false;  // from the last step to the first
  static AttrFields fields() { return {field("reverse", &LayerAttrs::reverse)}; }
};
struct RnnLayerAttrs {
  bool reverse = false;
  bool relu = false;
  static AttrFields fields() {
    return {field("reverse", &RnnLayerAttrs::reverse), field("relu", &RnnLayerAttrs::relu)};
  }
};

}  // namespace starling::op
