#pragma once

#include "starling/ops/def/attrs.h"

namespace starling::op {

struct SortAttrs {
  std::int64_t axis = -1;
  bool descending = false;
  static AttrFields fields() { return {field("axis", &SortAttrs::axis), field("descending", &SortAttrs::descending)}; }
};
struct TopkAttrs {
  std::int64_t k = 1;
  std::int64_t axis = -1;
  bool largest = true;
  bool sorted = true;  // false: in the order of x
  static AttrFields fields() {
    return {field("k", &TopkAttrs::k), field("axis", &TopkAttrs::axis), field("largest", &TopkAttrs::largest),
            field("sorted", &TopkAttrs::sorted)};
  }
};

}  // namespace starling::op
