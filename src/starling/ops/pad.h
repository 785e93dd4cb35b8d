#pragma once

#include <array>

#include "starling/ops/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct PadAttrs {
  Shape before{};  // one number an axis, ≥ 0; empty: none
  Shape after{};
  Symbol mode{"constant"};  // constant, reflect (the edge itself is not repeated), edge
  double value = 0;         // of constant padding
  static AttrFields fields() {
    return {field("before", &PadAttrs::before), field("after", &PadAttrs::after), field("mode", &PadAttrs::mode),
            field("value", &PadAttrs::value)};
  }
};

// More elements before and after those of x along each axis. Reflection needs fewer than the axis has.
Tensor pad(const Tensor& x, const PadAttrs& attrs);

// A run of elements along one axis of a padded tensor: `count` from `begin`, which come from `source` on, `step` apart,
// or which are the constant.
struct PadRun {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t source = 0;
  std::int64_t step = 1;
  bool constant = false;
};
std::array<PadRun, 3> pad_runs(const PadAttrs& attrs, int axis, std::int64_t size);

}  // namespace starling
