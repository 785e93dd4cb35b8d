#pragma once

#include "starling/ops/def/attrs.h"

namespace starling::op {

struct AttentionAttrs {
  bool causal = false;  // query i sees keys 0 … i only
  double scale = 0;     // scale of the scores; 0: 1 / √d
  static AttrFields fields() {
    return {field("causal", &AttentionAttrs::causal), field("scale", &AttentionAttrs::scale)};
  }
};

}  // namespace starling::op
