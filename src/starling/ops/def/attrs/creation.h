#pragma once

#include "starling/ops/def/attrs.h"

namespace starling::op {

struct FullAttrs {
  Shape shape{};
  double value = 0;
  DType dtype = DType::f32;
  static AttrFields fields() {
    return {field("shape", &FullAttrs::shape), field("value", &FullAttrs::value), field("dtype", &FullAttrs::dtype)};
  }
};

struct CastAttrs {
  DType dtype = DType::f32;
  static AttrFields fields() { return {field("dtype", &CastAttrs::dtype)}; }
};

}  // namespace starling::op
