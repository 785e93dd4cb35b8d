#pragma once

#include "starling/kernels/cuda/device/norm.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/norm_view.h"

namespace starling::cuda {

// Sizes for device code; false if one exceeds what it counts with.
bool device_norm(const NormView& view, device::Norm& norm);

std::unique_ptr<kernels::Plan> plan_norm(const kernels::PlanRequest& request);
std::unique_ptr<kernels::Plan> plan_norm_backward(const kernels::PlanRequest& request);

// Kernels of a normalisation op and of its backward.
inline void add_norm(kernels::KernelTable& table, const std::string& op) {
  table.add(op, DeviceKind::cuda, {"norm", kernels::Accepts::contiguous, plan_norm});
  table.add(op + "_backward", DeviceKind::cuda, {"norm", kernels::Accepts::contiguous, plan_norm_backward});
}

}  // namespace starling::cuda
