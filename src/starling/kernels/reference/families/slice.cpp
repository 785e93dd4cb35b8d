#include <cstring>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/reference/element_copy.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/attrs/shape_ops.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_slice_backward(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::SliceBackwardAttrs>();
  const ArgDesc &in = request.in[0], &out = request.out[0];
  const int axis = normalize_axis(a.axis, out.shape.rank(), "slice_backward");
  reference::ElementCopy copy{in.shape, {in.strides, out.strides}, 0, 0, size_of(in.dtype)};
  const op::SliceRange range = op::slice_range({a.axis, a.begin, a.end, a.step}, out.shape[axis]);
  if (range.count > 0) copy.target_offset = range.begin * out.strides[axis];
  if (range.count > 1) copy.strides[1][axis] *= a.step;
  const std::size_t bytes = bytes_of(out);
  return make_plan([=](const Launch& launch) {
    std::memset(launch.out[0], 0, bytes);
    copy.run(launch.in[0], launch.out[0]);
  });
}

}  // namespace

void register_reference_slice(KernelTable& table) {
  table.add("slice_backward", DeviceKind::cpu, reference::kernel(Accepts::strided, plan_slice_backward));
}

}  // namespace starling::kernels
