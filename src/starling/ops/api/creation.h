#pragma once

#include "starling/ops/def/apply.h"

namespace starling {

// Tensor filled with one value. While tracing it is a node of the graph.
Tensor full(const Shape& shape, double value, DType dtype = DType::f32);
inline Tensor ones(const Shape& shape, DType dtype = DType::f32) { return full(shape, 1, dtype); }
inline Tensor scalar(double value, DType dtype = DType::f32) { return full({}, value, dtype); }

Tensor cast(const Tensor& x, DType dtype);

}  // namespace starling
