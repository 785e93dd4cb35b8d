#include "starling/kernels/cpu/index/strided_copy.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/registry.h"

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

}  // namespace

void register_cpu_view_ops(KernelTable& table) {
  for (const auto* op : op_registry().sorted()) {
    if (op->view) table.add(op->name, DeviceKind::cpu, {"copy", Accepts::strided, plan_view});
  }
}

}  // namespace starling::kernels
