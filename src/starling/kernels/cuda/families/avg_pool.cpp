#include "starling/kernels/cuda/device/image_pool.h"
#include "starling/kernels/cuda/pool_plans.h"
#include "starling/kernels/cuda/storage.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/api/pool.h"
#include "starling/ops/def/attrs/pool.h"

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
  if (!cuda::all_f32(request.in) || !cuda::all_f32(request.out)) return nullptr;
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
  if (!cuda::all_f32(request.in) || !cuda::all_f32(request.out) || !request.out[0].contiguous()) return nullptr;
  if (!cuda::device_pool(cuda::even_geometry(request.out[0].shape, request.in[0].shape), true, pool)) return nullptr;
  return plan_backward(request, pool);
}

// Means of whole images with channels last, or their gradient.
std::unique_ptr<Plan> plan_image_mean(const PlanRequest& request, const ArgDesc& image, const ArgDesc& mean,
                                      bool backward) {
  const auto from = cuda::real_of(request.in[0].dtype), to = cuda::real_of(request.out[0].dtype);
  const Shape& x = image.shape;
  if (!from || !to || !is_channels_last(image) || x[1] % 8 != 0 || x[0] > 65535 || x.numel() == 0) return nullptr;
  if (mean.shape.numel() != x[0] * x[1] || !mean.contiguous()) return nullptr;
  if (x[1] * x[2] * x[3] > (1 << 30)) return nullptr;
  const auto number = [](std::int64_t value) { return static_cast<int>(value); };
  device::ImagePool pool{number(x[0]), number(x[1]), {}, {}};
  pool.rows.in = number(x[2]), pool.columns.in = number(x[3]);
  check_cuda(device::load_image_pool(), "loading a kernel");
  return make_plan([=, from = *from, to = *to](const Launch& launch) {
    const device::Reals in{launch.in[0], from};
    const device::RealsOut out{launch.out[0], to};
    check_cuda(backward ? device::launch_image_mean_backward(pool, in, out, cuda::stream_of(launch))
                        : device::launch_image_mean(pool, in, out, cuda::stream_of(launch)),
               "launching a pooling");
  });
}

}  // namespace

void register_cuda_avg_pool(KernelTable& table) {
  for (const char* op : {"global_avg_pool", "adaptive_avg_pool2d"}) {
    table.add(op, DeviceKind::cuda, {"images", Accepts::strided, [](const PlanRequest& r) {
                                       return plan_image_mean(r, r.in[0], r.out[0], false);
                                     }});
    cuda::add_storable(op, {.narrow_in = numbered({0}), .narrow_out = numbered({0})});
  }
  table.add("adaptive_avg_pool_backward", DeviceKind::cuda, {"images", Accepts::strided, [](const PlanRequest& r) {
                                                               return plan_image_mean(r, r.out[0], r.in[0], true);
                                                             }});
  cuda::add_storable(
      "adaptive_avg_pool_backward",
      {.narrow_in = numbered({0}), .narrow_out = numbered({0}), .images_out = numbered({0}), .prefers_images = true});
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
