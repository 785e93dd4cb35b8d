#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"

namespace starling::kernels {
namespace {

using reference::for_floats;

std::unique_ptr<Plan> plan_dot(const PlanRequest& request) {
  const auto n = request.in[0].shape.back(), rows = request.out[0].shape.numel();
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([n, rows](const Launch& launch) {
      const auto *a = static_cast<const T*>(launch.in[0]), *b = static_cast<const T*>(launch.in[1]);
      for (std::int64_t r = 0; r < rows; ++r, a += n, b += n) {
        double sum = 0;
        for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
        static_cast<T*>(launch.out[0])[r] = static_cast<T>(sum);
      }
    });
  });
}

std::unique_ptr<Plan> plan_outer(const PlanRequest& request) {
  const auto m = request.in[0].shape[0], n = request.in[1].shape[0];
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([m, n](const Launch& launch) {
      for (std::int64_t i = 0; i < m; ++i) {
        for (std::int64_t j = 0; j < n; ++j) {
          static_cast<T*>(launch.out[0])[i * n + j] =
              static_cast<const T*>(launch.in[0])[i] * static_cast<const T*>(launch.in[1])[j];
        }
      }
    });
  });
}

}  // namespace

void register_reference_dot(KernelTable& table) {
  table.add("dot", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_dot));
  table.add("outer", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_outer));
}

}  // namespace starling::kernels
