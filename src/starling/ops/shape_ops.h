#pragma once

#include <span>

#include "starling/ops/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

struct ShapeAttrs {
  Shape shape{};
  static AttrFields fields() { return {field("shape", &ShapeAttrs::shape)}; }
};
struct TransposeAttrs {
  Shape order{};  // empty: all dimensions reversed
  static AttrFields fields() { return {field("order", &TransposeAttrs::order)}; }
};
struct SliceAttrs {
  std::int64_t axis = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t step = 1;
  static AttrFields fields() {
    return {field("axis", &SliceAttrs::axis), field("begin", &SliceAttrs::begin), field("end", &SliceAttrs::end),
            field("step", &SliceAttrs::step)};
  }
};
struct SliceBackwardAttrs {
  Shape shape{};  // of the tensor that was sliced
  std::int64_t axis = 0;
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t step = 1;
  static AttrFields fields() {
    return {field("shape", &SliceBackwardAttrs::shape), field("axis", &SliceBackwardAttrs::axis),
            field("begin", &SliceBackwardAttrs::begin), field("end", &SliceBackwardAttrs::end),
            field("step", &SliceBackwardAttrs::step)};
  }
};
struct AxisAttrs {
  std::int64_t axis = -1;
  static AttrFields fields() { return {field("axis", &AxisAttrs::axis)}; }
};

// Views where the memory allows it, copies otherwise.
Tensor reshape(const Tensor& x, const Shape& shape);  // one size may be -1
Tensor flatten(const Tensor& x, int from = 1);
Tensor transpose(const Tensor& x, const Shape& order = {});
Tensor broadcast_to(const Tensor& x, const Shape& shape);
Tensor slice(const Tensor& x, const SliceAttrs& attrs);  // 0 ≤ begin ≤ end ≤ size, step ≥ 1
Tensor concat(std::span<const Tensor> xs, std::int64_t axis = 0);

}  // namespace starling
