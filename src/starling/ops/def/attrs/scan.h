#pragma once

#include "starling/ops/def/attrs.h"

namespace starling::op {

struct ScanAttrs {
  std::int64_t axis = -1;
  bool exclusive = false;  // excludes the element itself: the first result is 0, or 1 for products
  bool reverse = false;    // from the end
  static AttrFields fields() {
    return {field("axis", &ScanAttrs::axis), field("exclusive", &ScanAttrs::exclusive),
            field("reverse", &ScanAttrs::reverse)};
  }
};

struct RecurrenceAttrs {
  std::int64_t axis = -1;
  bool reverse = false;
  static AttrFields fields() {
    return {field("axis", &RecurrenceAttrs::axis), field("reverse", &RecurrenceAttrs::reverse)};
  }
};

}  // namespace starling::op
