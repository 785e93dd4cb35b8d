#include "starling/ops/api/pool.h"

#include "starling/kernels/cuda/pool_plans.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/pool.h"

namespace starling::kernels {
namespace {

using cuda::input;
using cuda::output;
using device::PoolKind;
using device::PoolScatter;

std::unique_ptr<Plan> plan_max(const PlanRequest& request) {
  if (!cuda::all_f32(request.in)) return nullptr;
  device::Pool pool;
  const auto& attrs = request.attrs.as<op::MaxPoolAttrs>();
  if (!cuda::device_pool(pool_geometry(request.in[0].shape, attrs, 0, request.op.name.c_str()), false, pool))
    return nullptr;
  return cuda::plan_pool(request, PoolKind::max, pool);
}

std::unique_ptr<Plan> plan_even_max(const PlanRequest& request) {
  if (!cuda::all_f32(request.in)) return nullptr;
  device::Pool pool;
  if (!cuda::device_pool(cuda::even_geometry(request.in[0].shape, request.out[0].shape), true, pool)) return nullptr;
  return cuda::plan_pool(request, PoolKind::max, pool);
}

// Images [planes, volume] and windows [planes, windows] of positions.
PoolScatter scatter_of(const Shape& x, const Shape& y) {
  const std::int64_t planes = y[0] * y[1];
  return {planes, planes > 0 ? x.numel() / planes : 0, planes > 0 ? y.numel() / planes : 0};
}

std::unique_ptr<Plan> plan_scatter(const PlanRequest& request) {
  if (request.in[0].dtype != DType::f32) return nullptr;
  if (request.out[0].shape.numel() == 0) return make_plan([](const Launch&) {});
  const PoolScatter pool = scatter_of(request.out[0].shape, request.in[0].shape);
  if (pool.volume > (1 << 30) || pool.windows > (1 << 30)) return nullptr;
  check_cuda(device::load_pool_scatter(), "loading a kernel");
  const auto ints = static_cast<std::size_t>(pool.planes * (pool.volume + pool.windows));
  return make_plan(ints * sizeof(int), [pool](const Launch& launch) {
    check_cuda(
        device::launch_pool_scatter(pool, input<float>(launch, 0), input<int>(launch, 1), output<float>(launch, 0),
                                    static_cast<int*>(launch.scratch), cuda::stream_of(launch)),
        "launching a kernel");
  });
}

std::unique_ptr<Plan> plan_gather(const PlanRequest& request) {
  if (request.in[0].dtype != DType::f32) return nullptr;
  if (request.out[0].shape.numel() == 0) return make_plan([](const Launch&) {});
  check_cuda(device::load_pool_scatter(), "loading a kernel");
  return make_plan([pool = scatter_of(request.in[0].shape, request.out[0].shape)](const Launch& launch) {
    check_cuda(device::launch_pool_gather(pool, input<float>(launch, 0), input<int>(launch, 1),
                                          output<float>(launch, 0), cuda::stream_of(launch)),
               "launching a kernel");
  });
}

}  // namespace

void register_cuda_pool(KernelTable& table) {
  const auto add = [&](const std::string& op, auto plan) {
    table.add(op, DeviceKind::cuda, {"windows", Accepts::contiguous, plan});
  };
  for (const std::string dims : {"1d", "2d", "3d"}) {
    add("max_pool" + dims, plan_max);
    add("max_pool" + dims + "_values", plan_max);
    add("adaptive_max_pool" + dims, plan_even_max);
  }
  add("global_max_pool", plan_even_max);
  add("max_pool_backward", plan_scatter);
  add("max_pool_gather", plan_gather);
}

}  // namespace starling::kernels
