#pragma once

#include "starling/tensor/dtype.h"

namespace starling::kernels {

// Learning rate operand of an update: f32, or f64 beside weights of f64.
inline double read_rate(DType dtype, const void* rate) {
  return dtype == DType::f64 ? *static_cast<const double*>(rate)
                             : static_cast<double>(*static_cast<const float*>(rate));
}

}  // namespace starling::kernels
