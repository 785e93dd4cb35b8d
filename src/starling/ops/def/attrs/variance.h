#pragma once

#include "starling/ops/def/attrs.h"

namespace starling::op {

struct VarAttrs {
  Shape axes{};  // empty: all
  std::int64_t correction = 1;
  bool keepdim = false;
  static AttrFields fields() {
    return {field("axes", &VarAttrs::axes), field("correction", &VarAttrs::correction),
            field("keepdim", &VarAttrs::keepdim)};
  }
};

}  // namespace starling::op
