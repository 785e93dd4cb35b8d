#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"

namespace starling::kernels {
namespace {

using reference::for_floats;

std::unique_ptr<Plan> plan_squared_error(const PlanRequest& request) {
  const auto n = request.in[0].shape.numel();
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([n](const Launch& launch) {
      double sum = 0;
      for (std::int64_t i = 0; i < n; ++i) {
        const double d = static_cast<double>(static_cast<const T*>(launch.in[0])[i]) -
                         static_cast<double>(static_cast<const T*>(launch.in[1])[i]);
        sum += d * d;
      }
      *static_cast<T*>(launch.out[0]) = static_cast<T>(sum);
    });
  });
}

}  // namespace

void register_reference_loss(KernelTable& table) {
  table.add("squared_error", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_squared_error));
}

}  // namespace starling::kernels
