#include "starling/ops/api/pool.h"

#include "starling/kernels/cuda/device/image_pool.h"
#include "starling/kernels/cuda/pool_plans.h"
#include "starling/kernels/cuda/storage.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/attrs/pool.h"

namespace starling::kernels {
namespace {

using cuda::input;
using cuda::output;
using device::PoolKind;
using device::PoolScatter;

std::unique_ptr<Plan> plan_max(const PlanRequest& request) {
  if (!cuda::all_f32(request.in) || !request.out[0].contiguous() || !cuda::all_f32(request.out.subspan(0, 1)))
    return nullptr;
  device::Pool pool;
  const auto& attrs = request.attrs.as<op::MaxPoolAttrs>();
  if (!cuda::device_pool(pool_geometry(request.in[0].shape, attrs, 0, request.op.name.c_str()), false, pool))
    return nullptr;
  return cuda::plan_pool(request, PoolKind::max, pool);
}

std::unique_ptr<Plan> plan_even_max(const PlanRequest& request) {
  if (!cuda::all_f32(request.in) || !request.out[0].contiguous() || !cuda::all_f32(request.out.subspan(0, 1)))
    return nullptr;
  device::Pool pool;
  if (!cuda::device_pool(cuda::even_geometry(request.in[0].shape, request.out[0].shape), true, pool)) return nullptr;
  return cuda::plan_pool(request, PoolKind::max, pool);
}

// Images [planes, volume] and windows [planes, windows] of positions.
PoolScatter scatter_of(const Shape& x, const Shape& y) {
  const std::int64_t planes = y[0] * y[1];
  return {planes, planes > 0 ? x.numel() / planes : 0, planes > 0 ? y.numel() / planes : 0};
}

// Windows of images with channels last; false if they are not, or of another form.
bool image_pool(const ArgDesc& x, const ArgDesc& y, device::ImagePool& pool) {
  if (!is_channels_last(x) || !is_channels_last(y) || x.shape[1] % 8 != 0) return false;
  if (!cuda::real_of(x.dtype) || y.dtype != x.dtype || x.shape.numel() == 0 || y.shape.numel() == 0) return false;
  if (x.shape.numel() / x.shape[0] > (1 << 30) || x.shape[0] > 65535) return false;
  const auto number = [](std::int64_t value) { return static_cast<int>(value); };
  pool = {number(x.shape[0]), number(x.shape[1]), {}, {}};
  pool.rows.in = number(x.shape[2]), pool.rows.out = number(y.shape[2]);
  pool.columns.in = number(x.shape[3]), pool.columns.out = number(y.shape[3]);
  check_cuda(device::load_image_pool(), "loading a kernel");
  return true;
}

std::unique_ptr<Plan> plan_image_max(const PlanRequest& request) {
  device::ImagePool pool;
  device::Pool windows;
  const bool indexed = request.out.size() > 1;
  if (!image_pool(request.in[0], request.out[0], pool) || (indexed && !is_channels_last(request.out[1])) ||
      !cuda::device_pool(
          pool_geometry(request.in[0].shape, request.attrs.as<op::MaxPoolAttrs>(), 0, request.op.name.c_str()), false,
          windows))
    return nullptr;
  pool.rows = windows.axes[1];
  pool.columns = windows.axes[2];
  return make_plan([pool, indexed, kind = *cuda::real_of(request.in[0].dtype)](const Launch& launch) {
    check_cuda(device::launch_image_max_pool(pool, {launch.in[0], kind}, {launch.out[0], kind},
                                             indexed ? output<int>(launch, 1) : nullptr, cuda::stream_of(launch)),
               "launching a pooling");
  });
}

std::unique_ptr<Plan> plan_image_scatter(const PlanRequest& request) {
  device::ImagePool pool;
  if (!is_half(request.in[0].dtype) || !image_pool(request.out[0], request.in[0], pool) ||
      !is_channels_last(request.in[1]))
    return nullptr;
  const auto bytes = static_cast<std::size_t>(request.out[0].shape.numel()) * sizeof(float);
  return make_plan(bytes, [pool, kind = *cuda::real_of(request.in[0].dtype)](const Launch& launch) {
    check_cuda(device::launch_image_scatter(pool, {launch.in[0], kind}, input<int>(launch, 1),
                                            static_cast<float*>(launch.scratch), {launch.out[0], kind},
                                            cuda::stream_of(launch)),
               "launching a kernel");
  });
}

std::unique_ptr<Plan> plan_scatter(const PlanRequest& request) {
  if (request.in[0].dtype != DType::f32 || !request.out[0].contiguous()) return nullptr;
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

// Windows that a gradient's positions come from; false if a size exceeds what device code counts with.
bool windows_of(const PlanRequest& request, device::Pool& windows) {
  const auto& a = request.attrs.as<op::MaxPoolGradAttrs>();
  return cuda::device_pool(
      pool_geometry(a.shape, {a.kernel, a.stride, a.padding, a.dilation, a.ceil_mode}, 2, request.op.name.c_str()),
      false, windows);
}

std::unique_ptr<Plan> plan_image_windows(const PlanRequest& request) {
  device::ImagePool pool;
  device::Pool windows;
  if (!image_pool(request.out[0], request.in[0], pool) || !is_channels_last(request.in[1]) ||
      !windows_of(request, windows))
    return nullptr;
  pool.rows = windows.axes[1];
  pool.columns = windows.axes[2];
  return make_plan([pool, kind = *cuda::real_of(request.in[0].dtype)](const Launch& launch) {
    check_cuda(device::launch_image_max_backward(pool, {launch.in[0], kind}, input<int>(launch, 1),
                                                 {launch.out[0], kind}, cuda::stream_of(launch)),
               "launching a kernel");
  });
}

std::unique_ptr<Plan> plan_windows(const PlanRequest& request) {
  device::Pool windows;
  if (request.in[0].dtype != DType::f32 || !request.out[0].contiguous() || !windows_of(request, windows))
    return nullptr;
  if (request.out[0].shape.numel() == 0) return make_plan([](const Launch&) {});
  check_cuda(device::load_max_backward(), "loading a kernel");
  return make_plan([windows](const Launch& launch) {
    check_cuda(device::launch_max_backward(windows, input<float>(launch, 0), input<int>(launch, 1),
                                           output<float>(launch, 0), cuda::stream_of(launch)),
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
  const Storable pooled{.images_in = numbered({0}), .images_out = each()},
      scattered{.images_in = numbered({0, 1}), .images_out = each()};
  for (const char* op : {"max_pool2d", "max_pool2d_values"}) {
    table.add(op, DeviceKind::cuda, {"images", Accepts::strided, plan_image_max});
    cuda::add_storable(op, pooled);
  }
  table.add("max_pool2d_backward", DeviceKind::cuda, {"images", Accepts::strided, plan_image_windows});
  cuda::add_storable("max_pool2d_backward", scattered);
  table.add("max_pool_backward", DeviceKind::cuda, {"images", Accepts::strided, plan_image_scatter});
  cuda::add_storable("max_pool_backward", scattered);
  const auto add = [&](const std::string& op, auto plan) {
    table.add(op, DeviceKind::cuda, {"windows", Accepts::contiguous, plan});
  };
  for (const std::string dims : {"1d", "2d", "3d"}) {
    add("max_pool" + dims, plan_max);
    add("max_pool" + dims + "_values", plan_max);
    add("adaptive_max_pool" + dims, plan_even_max);
  }
  add("global_max_pool", plan_even_max);
  add("max_pool2d_backward", plan_windows);
  add("max_pool_backward", plan_scatter);
  add("max_pool_gather", plan_gather);
}

}  // namespace starling::kernels
