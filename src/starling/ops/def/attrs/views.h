#pragma once

#include "starling/ops/def/attrs.h"

namespace starling::op {

struct AxesAttrs {
  Shape axes{};
  static AttrFields fields() { return {field("axes", &AxesAttrs::axes)}; }
};
struct DiagonalAttrs {
  std::int64_t offset = 0;  // above the main diagonal; negative: below
  std::int64_t axis1 = -2;
  std::int64_t axis2 = -1;
  static AttrFields fields() {
    return {field("offset", &DiagonalAttrs::offset), field("axis1", &DiagonalAttrs::axis1),
            field("axis2", &DiagonalAttrs::axis2)};
  }
};

// Memory positions of a diagonal's elements: `count` of them from `begin`, `stride` apart.
struct DiagonalLine {
  std::int64_t begin = 0;
  std::int64_t stride = 0;
  std::int64_t count = 0;
};
DiagonalLine diagonal_line(const DiagonalAttrs& attrs, const Shape& shape, const Shape& strides, const char* who);

}  // namespace starling::op
