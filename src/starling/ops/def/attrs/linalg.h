#pragma once

#include "starling/ops/def/attrs.h"

namespace starling::op {

struct CholeskyAttrs {
  bool upper = false;
  static AttrFields fields() { return {field("upper", &CholeskyAttrs::upper)}; }
};

}  // namespace starling::op
