#include "starling/ops/api/views.h"

#include "starling/kernels/cpu/index/strided_copy.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/registry.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_diag_embed(const PlanRequest& request) {
  const ArgDesc &in = request.in[0], &out = request.out[0];
  const auto line = find_op("diagonal").view({out.shape, out.strides, request.attrs});
  const PlannedCopy copy{in.shape, in.strides, line->strides, 0, line->offset, element_bytes(in.dtype)};
  const std::size_t bytes = bytes_of(out);
  return make_plan([=](const Launch& launch) {
    parallel_zero(launch.out[0], bytes);
    copy.run(launch.in[0], launch.out[0]);
  });
}

}  // namespace

void register_cpu_views(KernelTable& table) {
  table.add("diag_embed", DeviceKind::cpu, {"copy", Accepts::strided, plan_diag_embed});
}

}  // namespace starling::kernels
