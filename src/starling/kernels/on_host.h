#pragma once

#include "starling/kernels/kernel_table.h"

namespace starling::kernels {

// Plan for operands on a device that copies them to the host, runs the CPU's kernel there and copies the results back:
// for calls that no kernel of the device takes, and for results whose shapes depend on values. It waits for the device
// and cannot be recorded. Empty where the CPU has no kernel and in builds without CUDA.
Planned plan_on_host(const OpDef& op, const Attrs& attrs, std::span<const ArgDesc> in, std::span<const ArgDesc> out,
                     int threads);

// plan_kernel for calls that run at once, outside of programs: what no kernel of a GPU takes is planned on the host.
Planned plan_eager(const OpDef& op, DeviceKind device, const Attrs& attrs, std::span<const ArgDesc> in,
                   std::span<const ArgDesc> out, const PlanOptions& options);

}  // namespace starling::kernels
