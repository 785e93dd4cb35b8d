#pragma once

#include "starling/ops/def/attrs.h"

namespace starling::op {

struct TriangularAttrs {
  std::int64_t diagonal = 0;  // diagonals above the main one; negative: below
  static AttrFields fields() { return {field("diagonal", &TriangularAttrs::diagonal)}; }
};

}  // namespace starling::op
