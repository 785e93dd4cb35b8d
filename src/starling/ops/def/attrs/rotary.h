#pragma once

#include "starling/ops/def/attrs.h"

namespace starling::op {

struct RotaryAttrs {
  double base = 10000;
  std::int64_t offset = 0;   // position of the first row
  bool interleaved = false;  // pairs are (0, 1), (2, 3), …; otherwise (0, d/2), (1, d/2 + 1), …
  bool inverse = false;      // rotates back: the gradient
  static AttrFields fields() {
    return {field("base", &RotaryAttrs::base), field("offset", &RotaryAttrs::offset),
            field("interleaved", &RotaryAttrs::interleaved), field("inverse", &RotaryAttrs::inverse)};
  }
};

}  // namespace starling::op
