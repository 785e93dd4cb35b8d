#include "starling/ops/api/conv_transpose.h"

#include "starling/kernels/cpu/conv/conv_plans.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

using DataPlan = std::unique_ptr<Plan> (*)(const PlanRequest&, const ConvGeometry&);

template <class A, DataPlan data>
std::unique_ptr<Plan> plan_transpose(const PlanRequest& request) {
  const ConvGeometry g =
      conv_geometry(request.out[0].shape, request.in[1].shape, request.attrs.as<A>(), request.op.name.c_str());
  auto plan = data(request, g);
  return plan && request.in.size() == 3 ? conv_plans::with_bias(std::move(plan), g, request.in[0].dtype)
                                        : std::move(plan);
}

template <class A>
void add_transpose(KernelTable& table, const char* op) {
  const auto add = [&](const char* name, std::unique_ptr<Plan> (*plan)(const PlanRequest&)) {
    table.add(op, DeviceKind::cpu, {name, Accepts::contiguous, plan});
  };
  add("depthwise", plan_transpose<A, conv_plans::depthwise_data>);
  add("winograd", plan_transpose<A, conv_plans::winograd_data>);
  add("panels", plan_transpose<A, conv_plans::panels_data>);
  add("im2col", plan_transpose<A, conv_plans::columns_data>);
}

}  // namespace

void register_cpu_conv_transpose(KernelTable& table) {
  add_transpose<op::ConvTranspose1dAttrs>(table, "conv_transpose1d");
  add_transpose<op::ConvTranspose2dAttrs>(table, "conv_transpose2d");
  add_transpose<op::ConvTranspose3dAttrs>(table, "conv_transpose3d");
}

}  // namespace starling::kernels
