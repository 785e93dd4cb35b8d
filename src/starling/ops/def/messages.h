#pragma once

#include "starling/ops/def/attrs.h"

namespace starling::op {

struct SendToAttrs {
  std::int64_t to = 0;
  Symbol name{};  // label for diagnostics
  static AttrFields fields() { return {field("to", &SendToAttrs::to), field("name", &SendToAttrs::name)}; }
};

struct RecvFromAttrs {
  std::int64_t from = 0;
  Shape shape{};
  Symbol name{};
  static AttrFields fields() {
    return {field("from", &RecvFromAttrs::from), field("shape", &RecvFromAttrs::shape),
            field("name", &RecvFromAttrs::name)};
  }
};

}  // namespace starling::op
