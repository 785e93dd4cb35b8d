#pragma once

#include "starling/kernels/cuda/device/norm.h"
#include "starling/kernels/cuda/storage.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/norm_view.h"

namespace starling::cuda {

// Sizes for device code; false if one exceeds what it counts with.
bool device_norm(const NormView& view, device::Norm& norm);

std::unique_ptr<kernels::Plan> plan_norm(const kernels::PlanRequest& request);
std::unique_ptr<kernels::Plan> plan_norm_backward(const kernels::PlanRequest& request);

// Kernels for floats of any kind: of rows (layer and RMS norm), and of images whose channels are last (batch norm).
// Null: not of that form.
std::unique_ptr<kernels::Plan> plan_mixed_norm(const kernels::PlanRequest& request);
std::unique_ptr<kernels::Plan> plan_mixed_norm_backward(const kernels::PlanRequest& request);

// Batch norm of images with channels last. Operands by number, -1: not there. Null: not of that form.
struct ColumnOperands {
  int x = 0, weight = -1, bias = -1, residual = -1;
  bool relu = false;
};
std::unique_ptr<kernels::Plan> plan_column_norm(const kernels::PlanRequest& request, const ColumnOperands& which,
                                                double eps);
struct ColumnSlopes {
  int dy = 0, y = -1, x = 1, mean = 2, var = 3, weight = -1, bias = -1;  // bias: to make y again
};
std::unique_ptr<kernels::Plan> plan_column_norm_backward(const kernels::PlanRequest& request, const ColumnSlopes& which,
                                                         double eps);

// Storage of a kernel whose operands of these numbers, and first result, are images or rows of any kind of float.
inline kernels::Storable mixed_rows(const std::vector<std::size_t>& operands) {
  kernels::Storable all;
  all.narrow_in = all.images_in = kernels::numbered(operands);
  all.narrow_out = all.images_out = kernels::numbered({0});
  return all;
}

// Memory that the kernels of a normalisation take: rows or images of any kind of float, or only what they compute in.
enum class NormStorage { mixed, computed };

// Kernels of a normalisation op and of its backward.
inline void add_norm(kernels::KernelTable& table, const std::string& op, NormStorage storage) {
  using kernels::Accepts;
  const bool mixed = storage == NormStorage::mixed;
  add_storable(op, mixed ? mixed_rows({0}) : kernels::Storable());
  add_storable(op + "_backward", mixed ? mixed_rows({0, 1}) : kernels::Storable());
  table.add(op, DeviceKind::cuda, {"mixed", Accepts::strided, plan_mixed_norm});
  table.add(op, DeviceKind::cuda, {"norm", Accepts::contiguous, plan_norm});
  table.add(op + "_backward", DeviceKind::cuda, {"mixed", Accepts::strided, plan_mixed_norm_backward});
  table.add(op + "_backward", DeviceKind::cuda, {"norm", Accepts::contiguous, plan_norm_backward});
}

}  // namespace starling::cuda
