#pragma once

#include <memory>

#include "starling/kernels/kernel_table.h"
#include "starling/tensor/device_memory.h"

namespace starling::dist {

// Plan of a device's program that runs the plan of the host: operands are copied to host memory, which is that of the
// communicator's arena where it has one, and results back. Copies count as staged bytes of a GpuComm.
std::unique_ptr<kernels::Plan> make_staged_plan(std::unique_ptr<kernels::Plan> on_host,
                                                const kernels::PlanRequest& request, const DeviceMemory& memory);

// Makes the plan of an op that communicates for buffers in one kind of memory, which its communicator reaches; `memory`
// has the copies and zeros to use there.
using CommPlan = std::unique_ptr<kernels::Plan> (*)(const kernels::PlanRequest&, const DeviceMemory& memory);

// Plan of a device's program that runs `direct`, on its memory, where the communicator has one for that
// (GpuComm) or there is none, else `staged`.
std::unique_ptr<kernels::Plan> make_device_plan(std::unique_ptr<kernels::Plan> direct,
                                                std::unique_ptr<kernels::Plan> staged);

// Adds the kernels of an op that communicates to the table: for the CPU and, in builds with CUDA, for GPUs.
void add_comm_kernel(kernels::KernelTable& table, std::string_view op, CommPlan plan);
// Adds the kernels of an op whose plan computes on the host: for GPUs it is always staged.
void add_host_comm_kernel(kernels::KernelTable& table, std::string_view op,
                          std::unique_ptr<kernels::Plan> (*plan)(const kernels::PlanRequest&));

}  // namespace starling::dist
