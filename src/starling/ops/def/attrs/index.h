#pragma once

#include "starling/ops/def/attrs.h"

namespace starling::op {

struct IndexPutAttrs {
  bool accumulate = false;
  static AttrFields fields() { return {field("accumulate", &IndexPutAttrs::accumulate)}; }
};
struct OneHotAttrs {
  std::int64_t classes = 1;
  DType dtype = DType::i64;
  static AttrFields fields() { return {field("classes", &OneHotAttrs::classes), field("dtype", &OneHotAttrs::dtype)}; }
};

}  // namespace starling::op
