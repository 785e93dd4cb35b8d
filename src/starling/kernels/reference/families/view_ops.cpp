#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/reference/element_copy.h"
#include "starling/ops/def/registry.h"

namespace starling::kernels {
namespace {

// Copy of a view, for a view op that could not return one or whose user needs separate memory.
std::unique_ptr<Plan> plan_view(const PlanRequest& request) {
  const ArgDesc& in = request.in[0];
  const auto view = request.op.view({in.shape, in.strides, request.attrs});
  reference::ElementCopy copy{in.shape, {in.strides, contiguous_strides(in.shape)}, 0, 0, size_of(in.dtype)};
  if (view) copy = {view->shape, {view->strides, contiguous_strides(view->shape)}, view->offset, 0, size_of(in.dtype)};
  return make_plan([copy](const Launch& launch) {
    if (launch.in[0] != launch.out[0]) copy.run(launch.in[0], launch.out[0]);
  });
}

}  // namespace

void register_reference_view_ops(KernelTable& table) {
  for (const auto* op : op_registry().sorted()) {
    if (op->view) table.add(op->name, DeviceKind::cpu, reference::kernel(Accepts::strided, plan_view));
  }
}

}  // namespace starling::kernels
