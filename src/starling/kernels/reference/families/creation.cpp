#include "starling/ops/api/creation.h"

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/ops/def/attrs/creation.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_full(const PlanRequest& request) {
  const auto& attrs = request.attrs.as<op::FullAttrs>();
  return make_plan([n = attrs.shape.numel(), value = attrs.value, dtype = attrs.dtype](const Launch& launch) {
    for (std::int64_t i = 0; i < n; ++i) reference::write<double>(dtype, launch.out[0], i, value);
  });
}

std::unique_ptr<Plan> plan_cast(const PlanRequest& request) {
  const auto n = request.in[0].shape.numel();
  return dispatch(request.in[0].dtype, [&]<class From>() {
    return dispatch(request.out[0].dtype, [&]<class To>() {
      return make_plan([n](const Launch& launch) {
        const auto* from = static_cast<const From*>(launch.in[0]);
        auto* to = static_cast<To*>(launch.out[0]);
        for (std::int64_t i = 0; i < n; ++i) to[i] = reference::convert<To>(from[i]);
      });
    });
  });
}

}  // namespace

void register_reference_creation(KernelTable& table) {
  table.add("full", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_full));
  table.add("cast", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_cast));
}

}  // namespace starling::kernels
