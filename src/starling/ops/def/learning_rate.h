#pragma once

#include "starling/tensor/tensor.h"

namespace starling::op {

// True for the learning rate operand of an update: f32[], or f64[] beside weights of f64.
inline bool is_rate(const TensorType& lr, const TensorType& weights) {
  return lr.shape.rank() == 0 && (lr.dtype == DType::f32 || (lr.dtype == DType::f64 && weights.dtype == DType::f64));
}

}  // namespace starling::op
