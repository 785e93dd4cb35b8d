#pragma once

#include <memory>

#include "starling/kernels/kernel.h"

namespace starling::kernels {

// Calls f with float or double by dtype; returns null for other dtypes.
template <class F>
std::unique_ptr<Plan> for_floats(DType dtype, F&& f) {
  if (dtype == DType::f32) return f.template operator()<float>();
  if (dtype == DType::f64) return f.template operator()<double>();
  return nullptr;
}

// Plan function of a kernel from those for float and double, by the dtype of the first operand; null for other dtypes.
template <class F32, class F64>
auto plan_by_float(F32 f32, F64 f64) {
  return [=](const PlanRequest& request) -> std::unique_ptr<Plan> {
    if (request.in[0].dtype == DType::f32) return f32(request);
    if (request.in[0].dtype == DType::f64) return f64(request);
    return nullptr;
  };
}

}  // namespace starling::kernels
