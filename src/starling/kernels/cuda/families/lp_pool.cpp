#include "starling/kernels/cuda/pool_plans.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/api/pool.h"
#include "starling/ops/def/attrs/pool.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_lp(const PlanRequest& request) {
  device::Pool pool;
  const auto& attrs = request.attrs.as<op::LpPoolAttrs>();
  if (!cuda::all_f32(request.in)) return nullptr;
  if (!cuda::device_pool(pool_geometry(request.in[0].shape, attrs, 0, request.op.name.c_str()), false, pool))
    return nullptr;
  pool.power = static_cast<float>(attrs.p);
  return cuda::plan_pool(request, device::PoolKind::lp, pool);
}

}  // namespace

void register_cuda_lp_pool(KernelTable& table) {
  for (const char* op : {"lp_pool1d", "lp_pool2d", "lp_pool3d"})
    table.add(op, DeviceKind::cuda, {"windows", Accepts::contiguous, plan_lp});
}

}  // namespace starling::kernels
