#include "starling/ops/shape_ops.h"

#include <cstring>
#include <vector>

#include "starling/kernels/cpu/simd/copy.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/registry.h"

namespace starling {
namespace {

struct Copy {
  Shape shape;
  Shape source_strides;
  Shape target_strides;
  std::int64_t source_offset = 0;  // in elements
  std::int64_t target_offset = 0;
  int element = 1;

  void run(const void* source, void* target) const {
    copy_strided({{shape.begin(), shape.end()},
                  static_cast<const std::byte*>(source) + source_offset * element,
                  {source_strides.begin(), source_strides.end()},
                  static_cast<std::byte*>(target) + target_offset * element,
                  {target_strides.begin(), target_strides.end()},
                  element});
  }
};

int element_size(DType dtype) { return static_cast<int>(size_of(dtype)); }

std::unique_ptr<Plan> plan_view(const PlanRequest& request) {
  const ArgDesc& in = request.in[0];
  const int element = element_size(in.dtype);
  const auto view = request.op.view({in.shape, in.strides, request.attrs});
  const Copy copy = view ? Copy{view->shape, view->strides, contiguous_strides(view->shape), view->offset, 0, element}
                         : Copy{in.shape, in.strides, contiguous_strides(in.shape), 0, 0, element};
  return make_plan([copy](const Launch& launch) {
    if (launch.in[0] != launch.out[0]) copy.run(launch.in[0], launch.out[0]);
  });
}

std::unique_ptr<Plan> plan_slice_backward(const PlanRequest& request) {
  const auto& a = request.attrs.as<SliceBackwardAttrs>();
  const ArgDesc &in = request.in[0], &out = request.out[0];
  const int axis = normalize_axis(a.axis, out.shape.rank(), "slice_backward");
  Copy copy{in.shape, in.strides, out.strides, 0, a.begin * out.strides[axis], element_size(in.dtype)};
  copy.target_strides[axis] *= a.step;
  const std::size_t bytes = static_cast<std::size_t>(out.shape.numel()) * size_of(out.dtype);
  return make_plan([=](const Launch& launch) {
    std::memset(launch.out[0], 0, bytes);
    copy.run(launch.in[0], launch.out[0]);
  });
}

std::unique_ptr<Plan> plan_concat(const PlanRequest& request) {
  const ArgDesc& out = request.out[0];
  const int axis = normalize_axis(request.attrs.as<AxisAttrs>().axis, out.shape.rank(), "concat");
  std::vector<Copy> copies;
  std::int64_t at = 0;
  for (const auto& in : request.in) {
    copies.push_back({in.shape, in.strides, out.strides, 0, at * out.strides[axis], element_size(in.dtype)});
    at += in.shape[axis];
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
}

}  // namespace starling
