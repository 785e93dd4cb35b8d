#pragma once

#include "starling/ops/def/attrs.h"

namespace starling::op {

struct LabelPlaceAttrs {
  std::int64_t classes = 0;
  std::int64_t ignore_index = -100;
  static AttrFields fields() {
    return {field("classes", &LabelPlaceAttrs::classes), field("ignore_index", &LabelPlaceAttrs::ignore_index)};
  }
};

}  // namespace starling::op
