#include "starling/ops/conv_transpose.h"

#include "starling/kernels/cpu/conv_plans.h"
#include "starling/kernels/kernel_table.h"

namespace starling {
namespace {

template <class A>
std::unique_ptr<Plan> plan_transpose(const PlanRequest& request) {
  return conv_plans::plan_data(request, conv_geometry(request.out[0].shape, request.in[1].shape, request.attrs.as<A>(),
                                                      request.op.name.c_str()));
}

}  // namespace

void register_cpu_conv_transpose(KernelTable& table) {
  const auto add = [&](const char* op, std::unique_ptr<Plan> (*plan)(const PlanRequest&)) {
    table.add(op, DeviceKind::cpu, {"im2col", Accepts::contiguous, plan});
  };
  add("conv_transpose1d", plan_transpose<ConvTranspose1dAttrs>);
  add("conv_transpose2d", plan_transpose<ConvTranspose2dAttrs>);
  add("conv_transpose3d", plan_transpose<ConvTranspose3dAttrs>);
}

}  // namespace starling
