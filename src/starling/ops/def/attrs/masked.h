#pragma once

#include "starling/ops/def/attrs.h"

namespace starling::op {

struct MaskedFillAttrs {
  double value = 0;
  static AttrFields fields() { return {field("value", &MaskedFillAttrs::value)}; }
};
struct MaskedGatherAttrs {
  std::int64_t size = 0;
  static AttrFields fields() { return {field("size", &MaskedGatherAttrs::size)}; }
};

}  // namespace starling::op
