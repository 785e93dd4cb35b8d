#pragma once

#include "starling/ops/def/apply.h"

namespace starling {

struct FullAttrs {
  Shape shape{};
  double value = 0;
  DType dtype = DType::f32;
  static AttrFields fields() {
    return {field("shape", &FullAttrs::shape), field("value", &FullAttrs::value), field("dtype", &FullAttrs::dtype)};
  }
};

// Tensor filled with one value. While tracing it is a node of the graph.
Tensor full(const Shape& shape, double value, DType dtype = DType::f32);
inline Tensor scalar(double value, DType dtype = DType::f32) { return full({}, value, dtype); }

struct CastAttrs {
  DType dtype = DType::f32;
  static AttrFields fields() { return {field("dtype", &CastAttrs::dtype)}; }
};
Tensor cast(const Tensor& x, DType dtype);

}  // namespace starling
