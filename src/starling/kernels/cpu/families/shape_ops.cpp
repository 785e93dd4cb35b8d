#include "starling/ops/api/shape_ops.h"

#include <vector>

#include "starling/kernels/cpu/index/strided_copy.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/shape_ops.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_view(const PlanRequest& request) {
  const ArgDesc& in = request.in[0];
  const int element = element_bytes(in.dtype);
  const auto view = request.op.view({in.shape, in.strides, request.attrs});
  const PlannedCopy copy =
      view ? PlannedCopy{view->shape, view->strides, contiguous_strides(view->shape), view->offset, 0, element}
           : PlannedCopy{in.shape, in.strides, contiguous_strides(in.shape), 0, 0, element};
  return make_plan([copy](const Launch& launch) {
    if (launch.in[0] != launch.out[0]) copy.run(launch.in[0], launch.out[0]);
  });
}

std::unique_ptr<Plan> plan_slice_backward(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::SliceBackwardAttrs>();
  const ArgDesc &in = request.in[0], &out = request.out[0];
  const int axis = normalize_axis(a.axis, out.shape.rank(), "slice_backward");
  PlannedCopy copy{in.shape, in.strides, out.strides, 0, 0, element_bytes(in.dtype)};
  const op::SliceRange range = op::slice_range({a.axis, a.begin, a.end, a.step}, out.shape[axis]);
  if (range.count > 0) copy.target_offset = range.begin * out.strides[axis];
  if (range.count > 1) copy.target_strides[axis] *= a.step;
  const std::size_t bytes = bytes_of(out);
  return make_plan([=](const Launch& launch) {
    parallel_zero(launch.out[0], bytes);
    copy.run(launch.in[0], launch.out[0]);
  });
}

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
  for (const auto* op : op_registry().sorted()) {
    if (op->view) table.add(op->name, DeviceKind::cpu, {"copy", Accepts::strided, plan_view});
  }
  table.add("slice_backward", DeviceKind::cpu, {"copy", Accepts::strided, plan_slice_backward});
  table.add("concat", DeviceKind::cpu, {"copy", Accepts::strided, plan_concat});
  table.add("stack", DeviceKind::cpu, {"copy", Accepts::strided, plan_stack});
}

}  // namespace starling::kernels
