#include "starling/ops/api/shape_ops.h"

#include <cstring>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/strides.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/shape_ops.h"

namespace starling::kernels {
namespace {

// Copy of elements as bytes, whatever their dtype.
struct Copy {
  Shape shape;
  std::array<Shape, 2> strides;  // source, target
  std::int64_t source_offset = 0;
  std::int64_t target_offset = 0;
  std::size_t element = 1;

  void run(const void* source, void* target) const {
    const auto* from = static_cast<const std::byte*>(source);
    auto* to = static_cast<std::byte*>(target);
    const auto size = static_cast<std::int64_t>(element);
    for_each_offset(shape, strides, [&](const std::array<std::int64_t, 2>& at) {
      std::memcpy(to + (target_offset + at[1]) * size, from + (source_offset + at[0]) * size, element);
    });
  }
};

// Copy of a view, for a view op that could not return one or whose user needs separate memory.
std::unique_ptr<Plan> plan_view(const PlanRequest& request) {
  const ArgDesc& in = request.in[0];
  const auto view = request.op.view({in.shape, in.strides, request.attrs});
  Copy copy{in.shape, {in.strides, contiguous_strides(in.shape)}, 0, 0, size_of(in.dtype)};
  if (view) copy = {view->shape, {view->strides, contiguous_strides(view->shape)}, view->offset, 0, size_of(in.dtype)};
  return make_plan([copy](const Launch& launch) {
    if (launch.in[0] != launch.out[0]) copy.run(launch.in[0], launch.out[0]);
  });
}

std::unique_ptr<Plan> plan_slice_backward(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::SliceBackwardAttrs>();
  const ArgDesc &in = request.in[0], &out = request.out[0];
  const int axis = normalize_axis(a.axis, out.shape.rank(), "slice_backward");
  Copy copy{in.shape, {in.strides, out.strides}, 0, 0, size_of(in.dtype)};
  const op::SliceRange range = op::slice_range({a.axis, a.begin, a.end, a.step}, out.shape[axis]);
  if (range.count > 0) copy.target_offset = range.begin * out.strides[axis];
  if (range.count > 1) copy.strides[1][axis] *= a.step;
  const std::size_t bytes = bytes_of(out);
  return make_plan([=](const Launch& launch) {
    std::memset(launch.out[0], 0, bytes);
    copy.run(launch.in[0], launch.out[0]);
  });
}

std::unique_ptr<Plan> plan_concat(const PlanRequest& request) {
  const ArgDesc& out = request.out[0];
  const int axis = normalize_axis(request.attrs.as<op::AxisAttrs>().axis, out.shape.rank(), "concat");
  std::vector<Copy> copies;
  std::int64_t at = 0;
  for (const auto& in : request.in) {
    copies.push_back({in.shape, {in.strides, out.strides}, 0, at * out.strides[axis], size_of(in.dtype)});
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
  std::vector<Copy> copies;
  for (const auto& in : request.in) {
    const auto at = static_cast<std::int64_t>(copies.size());
    copies.push_back({in.shape, {in.strides, strides}, 0, at * out.strides[axis], size_of(in.dtype)});
  }
  return make_plan([copies = std::move(copies)](const Launch& launch) {
    for (std::size_t i = 0; i < copies.size(); ++i) copies[i].run(launch.in[i], launch.out[0]);
  });
}

}  // namespace

void register_reference_shape_ops(KernelTable& table) {
  for (const auto* op : op_registry().sorted()) {
    if (op->view) table.add(op->name, DeviceKind::cpu, reference::kernel(Accepts::strided, plan_view));
  }
  table.add("slice_backward", DeviceKind::cpu, reference::kernel(Accepts::strided, plan_slice_backward));
  table.add("concat", DeviceKind::cpu, reference::kernel(Accepts::strided, plan_concat));
  table.add("stack", DeviceKind::cpu, reference::kernel(Accepts::strided, plan_stack));
}

}  // namespace starling::kernels
