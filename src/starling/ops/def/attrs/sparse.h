#pragma once

#include "starling/ops/def/attrs.h"

namespace starling::op {

struct CsrAttrs {
  bool trans = false;
  std::int64_t columns = 0;  // columns of the sparse matrix; with trans the rows of the result
  static AttrFields fields() { return {field("trans", &CsrAttrs::trans), field("columns", &CsrAttrs::columns)}; }
};

}  // namespace starling::op
