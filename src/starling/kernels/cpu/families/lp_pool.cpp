#include "starling/kernels/by_float.h"
#include "starling/kernels/cpu/pool/pool_plans.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_lp(const PlanRequest& r) {
  return for_floats(r.in[0].dtype, [&]<class T>() {
    const double p = r.attrs.as<op::LpPoolAttrs>().p;
    return make_plan([w = regular_windows(pool_geometry_of<op::LpPoolAttrs>(r)), p,
                      threads = r.threads](const Launch& l) { lp_pool(w, p, input<T>(l), output<T>(l), threads); });
  });
}

}  // namespace

void register_cpu_lp_pool(KernelTable& table) {
  for (const char* op : {"lp_pool1d", "lp_pool2d", "lp_pool3d"})
    table.add(op, DeviceKind::cpu, {"windows", Accepts::contiguous, plan_lp});
}

}  // namespace starling::kernels
