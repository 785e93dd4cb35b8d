#pragma once

#include <memory>

#include "starling/kernels/kernel_table.h"

namespace starling::cuda {

// Gaussian means, their gradients and local contrast normalisation of f64, a thread for every pixel; null for another
// dtype.
std::unique_ptr<kernels::Plan> plan_mean_f64(const kernels::PlanRequest& request);
std::unique_ptr<kernels::Plan> plan_mean_backward_f64(const kernels::PlanRequest& request);
std::unique_ptr<kernels::Plan> plan_contrast_f64(const kernels::PlanRequest& request);

}  // namespace starling::cuda
