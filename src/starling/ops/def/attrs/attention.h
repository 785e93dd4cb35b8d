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

struct AttentionBackwardAttrs {
  bool causal = false;
  double scale = 0;
  bool dlse_is_zero = false;  // dlse holds zeros, so that kernels need not read it
  static AttrFields fields() {
    return {field("causal", &AttentionBackwardAttrs::causal), field("scale", &AttentionBackwardAttrs::scale),
            field("dlse_is_zero", &AttentionBackwardAttrs::dlse_is_zero)};
  }
};

}  // namespace starling::op
