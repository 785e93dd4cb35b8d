#pragma once

#include <limits>

#include "starling/ops/def/attrs.h"

namespace starling {

// Value of `end` for "to the end", in the direction of the step.
inline constexpr std::int64_t kToEnd = std::numeric_limits<std::int64_t>::max();

}  // namespace starling

namespace starling::op {

// Every step-th element from `begin` until before `end`. Negative positions count from the end of the axis; a negative
// step walks backwards; begin = kToEnd starts at the end that the step comes from.
struct SliceAttrs {
  std::int64_t axis = 0;
  std::int64_t begin = 0;
  std::int64_t end = kToEnd;
  std::int64_t step = 1;
  static AttrFields fields() {
    return {field("axis", &SliceAttrs::axis), field("begin", &SliceAttrs::begin), field("end", &SliceAttrs::end),
            field("step", &SliceAttrs::step)};
  }
};
struct SliceBackwardAttrs {
  Shape shape{};  // shape of the sliced tensor
  std::int64_t axis = 0;
  std::int64_t begin = 0;
  std::int64_t end = kToEnd;
  std::int64_t step = 1;
  static AttrFields fields() {
    return {field("shape", &SliceBackwardAttrs::shape), field("axis", &SliceBackwardAttrs::axis),
            field("begin", &SliceBackwardAttrs::begin), field("end", &SliceBackwardAttrs::end),
            field("step", &SliceBackwardAttrs::step)};
  }
};
struct SplitAttrs {
  std::int64_t axis = 0;
  std::int64_t count = 1;  // equal pieces
  std::int64_t index = 0;  // index of the wanted piece
  static AttrFields fields() {
    return {field("axis", &SplitAttrs::axis), field("count", &SplitAttrs::count), field("index", &SplitAttrs::index)};
  }
};

// Slice resolved for an axis of a given size: `count` elements from `begin`.
struct SliceRange {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};
SliceRange slice_range(const SliceAttrs& attrs, std::int64_t size);  // throws if a position is out of range

}  // namespace starling::op
