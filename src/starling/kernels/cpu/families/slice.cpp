#include "starling/kernels/cpu/index/strided_copy.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/attrs/shape_ops.h"

namespace starling::kernels {
namespace {

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

}  // namespace

void register_cpu_slice(KernelTable& table) {
  table.add("slice_backward", DeviceKind::cpu, {"copy", Accepts::strided, plan_slice_backward});
}

}  // namespace starling::kernels
