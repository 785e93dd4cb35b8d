#pragma once

#include <memory>

#include "starling/kernels/kernel_table.h"

namespace starling::cuda {

// Locally connected layers of f32 and f64 of any size, a thread for every element of the result; null for another
// dtype.
std::unique_ptr<kernels::Plan> plan_plain_local_conv(const kernels::PlanRequest& request);

}  // namespace starling::cuda
