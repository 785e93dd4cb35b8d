#include "starling/ops/api/shape_ops.h"

#include <vector>

#include "starling/kernels/cpu/index/strided_copy.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/attrs/shape_ops.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_concat(const PlanRequest& request) {
  const ArgDesc& out = request.out[0];
  const int axis = normalize_axis(request.attrs.as<op::AxisAttrs>().axis, out.shape.rank(), "concat");
  std::vector<PlannedCopy> copies;
  std::int64_t at = 0;
  for (const auto& in : request.in) {
    copies.push_back({in.shape, in.strides, out.strides, 0, at * out.strides[axis], element_bytes(in.dtype)});
    at += in.shape[axis];
  }
  return make_plan([copies = std::move(copies)](const Launch& launch) {
    for (std::size_t i = 0; i < copies.size(); ++i) copies[i].run(launch.in[i], launch.out[0]);
  });
}

std::unique_ptr<Plan> plan_stack(const PlanRequest& request) {
  const ArgDesc& out = request.out[0];
  const int axis = normalize_axis(request.attrs.as<op::AxisAttrs>().axis, out.shape.rank(), "stack");
  Shape strides = out.strides;
  strides.erase(axis);
  std::vector<PlannedCopy> copies;
  for (const auto& in : request.in) {
    const auto at = static_cast<std::int64_t>(copies.size());
    copies.push_back({in.shape, in.strides, strides, 0, at * out.strides[axis], element_bytes(in.dtype)});
  }
  return make_plan([copies = std::move(copies)](const Launch& launch) {
    for (std::size_t i = 0; i < copies.size(); ++i) copies[i].run(launch.in[i], launch.out[0]);
  });
}

}  // namespace

void register_cpu_shape_ops(KernelTable& table) {
  table.add("concat", DeviceKind::cpu, {"copy", Accepts::strided, plan_concat});
  table.add("stack", DeviceKind::cpu, {"copy", Accepts::strided, plan_stack});
}

}  // namespace starling::kernels
