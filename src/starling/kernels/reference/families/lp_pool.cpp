#include <cmath>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/reference/pool_walk.h"
#include "starling/ops/api/shape_ops.h"

namespace starling::kernels {
namespace {

using reference::for_floats;

std::unique_ptr<Plan> plan_lp(const PlanRequest& request) {
  const auto windows = reference::pool_walk<op::LpPoolAttrs>(request);
  const double p = request.attrs.as<op::LpPoolAttrs>().p;
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      double sum = 0;
      windows.each([&](auto...) { sum = 0; },
                   [&](auto at, auto from, auto) {
                     sum += std::pow(std::abs(static_cast<double>(static_cast<const T*>(launch.in[0])[from])), p);
                     static_cast<T*>(launch.out[0])[at] = static_cast<T>(std::pow(sum, 1 / p));
                   });
    });
  });
}

}  // namespace

void register_reference_lp_pool(KernelTable& table) {
  for (const char* op : {"lp_pool1d", "lp_pool2d", "lp_pool3d"})
    table.add(op, DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_lp));
}

}  // namespace starling::kernels
