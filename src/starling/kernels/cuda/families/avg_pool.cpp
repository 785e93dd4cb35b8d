#include "starling/kernels/cuda/pool_plans.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/api/pool.h"
#include "starling/ops/def/pool.h"

namespace starling::kernels {
namespace {

using device::Pool;
using device::PoolKind;

bool average_of(const Shape& x, const op::AvgPoolAttrs& attrs, const char* who, Pool& pool) {
  if (!cuda::device_pool(pool_geometry(x, attrs, 0, who), false, pool)) return false;
  pool.include_pad = attrs.count_include_pad;
  pool.divisor = static_cast<float>(attrs.divisor);
  return true;
}

std::unique_ptr<Plan> plan_average(const PlanRequest& request) {
  Pool pool;
  if (!cuda::all_f32(request.in)) return nullptr;
  if (!average_of(request.in[0].shape, request.attrs.as<op::AvgPoolAttrs>(), request.op.name.c_str(), pool))
    return nullptr;
  return cuda::plan_pool(request, PoolKind::average, pool);
}

std::unique_ptr<Plan> plan_even(const PlanRequest& request) {
  Pool pool;
  if (!cuda::all_f32(request.in)) return nullptr;
  if (!cuda::device_pool(cuda::even_geometry(request.in[0].shape, request.out[0].shape), true, pool)) return nullptr;
  return cuda::plan_pool(request, PoolKind::average, pool);
}

std::unique_ptr<Plan> plan_backward(const PlanRequest& request, const Pool& pool) {
  if (request.out[0].shape.numel() == 0) return make_plan([](const Launch&) {});
  check_cuda(device::load_average_backward(), "loading a kernel");
  return make_plan([pool](const Launch& launch) {
    check_cuda(device::launch_average_backward(pool, cuda::input<float>(launch, 0), cuda::output<float>(launch, 0),
                                               cuda::stream_of(launch)),
               "launching a kernel");
  });
}

std::unique_ptr<Plan> plan_average_backward(const PlanRequest& request) {
  Pool pool;
  const auto& a = request.attrs.as<op::AvgPoolGradAttrs>();
  const op::AvgPoolAttrs forward{a.kernel, a.stride, a.padding, a.ceil_mode, a.count_include_pad, a.divisor};
  if (!cuda::all_f32(request.in) || !average_of(a.shape, forward, "avg_pool_backward", pool)) return nullptr;
  return plan_backward(request, pool);
}

std::unique_ptr<Plan> plan_even_backward(const PlanRequest& request) {
  Pool pool;
  if (!cuda::all_f32(request.in)) return nullptr;
  if (!cuda::device_pool(cuda::even_geometry(request.out[0].shape, request.in[0].shape), true, pool)) return nullptr;
  return plan_backward(request, pool);
}

}  // namespace

void register_cuda_avg_pool(KernelTable& table) {
  const auto add = [&](const std::string& op, auto plan) {
    table.add(op, DeviceKind::cuda, {"windows", Accepts::contiguous, plan});
  };
  for (const std::string dims : {"1d", "2d", "3d"}) {
    add("avg_pool" + dims, plan_average);
    add("adaptive_avg_pool" + dims, plan_even);
  }
  add("global_avg_pool", plan_even);
  add("avg_pool_backward", plan_average_backward);
  add("adaptive_avg_pool_backward", plan_even_backward);
}

}  // namespace starling::kernels
