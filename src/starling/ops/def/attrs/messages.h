#pragma once

#include "starling/ops/def/attrs.h"

namespace starling::op {

struct SendToAttrs {
  std::int64_t to = 0;
  Symbol name{};   // label for diagnostics
  Symbol group{};  // in which ranks count (ops/def/attrs/comm.h); empty: all ranks
  static AttrFields fields() {
    return {field("to", &SendToAttrs::to), field("name", &SendToAttrs::name), field("group", &SendToAttrs::group)};
  }
};

struct RecvFromAttrs {
  std::int64_t from = 0;
  Shape shape{};
  Symbol name{};
  Symbol group{};
  static AttrFields fields() {
    return {field("from", &RecvFromAttrs::from), field("shape", &RecvFromAttrs::shape),
            field("name", &RecvFromAttrs::name), field("group", &RecvFromAttrs::group)};
  }
};

}  // namespace starling::op
