#pragma once

#include <array>

#include "starling/ops/def/attrs.h"

namespace starling::op {

struct PadAttrs {
  Shape before{};  // one number per axis, ≥ 0; empty: none
  Shape after{};
  Symbol mode{"constant"};  // constant, reflect (the edge itself is not repeated), edge
  double value = 0;         // value of constant padding
  static AttrFields fields() {
    return {field("before", &PadAttrs::before), field("after", &PadAttrs::after), field("mode", &PadAttrs::mode),
            field("value", &PadAttrs::value)};
  }
};

// Run of elements along one axis of a padded tensor: `count` from `begin`, copied from `source` on, `step` apart, or
// constant.
struct PadRun {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t source = 0;
  std::int64_t step = 1;
  bool constant = false;
};
std::array<PadRun, 3> pad_runs(const PadAttrs& attrs, int axis, std::int64_t size);

}  // namespace starling::op
