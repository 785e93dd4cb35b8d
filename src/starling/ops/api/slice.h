#pragma once

#include <limits>
#include <span>
#include <vector>

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

// Value of `end` for "to the end", in the direction of the step.
inline constexpr std::int64_t kToEnd = std::numeric_limits<std::int64_t>::max();

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

// Views. Positions outside the axis are refused, not clamped.
Tensor slice(const Tensor& x, const SliceAttrs& attrs);
Tensor slice(const Tensor& x, std::span<const SliceAttrs> attrs);  // several axes, one after another
Tensor narrow(const Tensor& x, std::int64_t axis, std::int64_t begin, std::int64_t size);
Tensor select(const Tensor& x, std::int64_t axis, std::int64_t index);                  // drops the axis
std::vector<Tensor> split(const Tensor& x, std::int64_t count, std::int64_t axis = 0);  // equal pieces
std::vector<Tensor> split(const Tensor& x, std::span<const std::int64_t> sizes, std::int64_t axis = 0);
std::vector<Tensor> unbind(const Tensor& x, std::int64_t axis = 0);

// Slice resolved for an axis of a given size: `count` elements from `begin`.
struct SliceRange {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};
SliceRange slice_range(const SliceAttrs& attrs, std::int64_t size);  // throws if a position is out of range

}  // namespace starling
