#pragma once

#include "starling/ops/def/attrs.h"

namespace starling::op {

struct ShapeAttrs {
  Shape shape{};
  static AttrFields fields() { return {field("shape", &ShapeAttrs::shape)}; }
};
struct TransposeAttrs {
  Shape order{};  // empty: all dimensions reversed
  static AttrFields fields() { return {field("order", &TransposeAttrs::order)}; }
};
struct AxisAttrs {
  std::int64_t axis = -1;
  static AttrFields fields() { return {field("axis", &AxisAttrs::axis)}; }
};

// Product of the sizes of the dimensions before one.
inline std::int64_t elements_before(const Shape& shape, int dim) {
  std::int64_t product = 1;
  for (int d = 0; d < dim; ++d) product *= shape[d];
  return product;
}

}  // namespace starling::op
