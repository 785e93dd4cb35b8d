#include "starling/ops/api/create.h"

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/reference/moved.h"
#include "starling/ops/def/attrs/create.h"

namespace starling::kernels {
namespace {

using reference::write;

std::unique_ptr<Plan> plan_arange(const PlanRequest& request) {
  const auto a = request.attrs.as<op::ArangeAttrs>();
  const std::int64_t n = request.out[0].shape[0];
  return make_plan([=](const Launch& launch) {
    dispatch(a.dtype, [&]<class T>() {
      T* out = static_cast<T*>(launch.out[0]);
      if (is_float(a.dtype)) {
        for (std::int64_t i = 0; i < n; ++i) out[i] = reference::convert<T>(a.start + static_cast<double>(i) * a.step);
        return;
      }
      // Unsigned arithmetic, which wraps as narrower integers do.
      const auto start = static_cast<std::uint64_t>(static_cast<std::int64_t>(a.start));
      const auto step = static_cast<std::uint64_t>(static_cast<std::int64_t>(a.step));
      for (std::int64_t i = 0; i < n; ++i)
        out[i] = reference::convert<T>(static_cast<std::int64_t>(start + static_cast<std::uint64_t>(i) * step));
    });
  });
}

std::unique_ptr<Plan> plan_linspace(const PlanRequest& request) {
  const auto a = request.attrs.as<op::LinspaceAttrs>();
  return make_plan([=](const Launch& launch) {
    const double step = a.count > 1 ? (a.end - a.start) / static_cast<double>(a.count - 1) : 0;
    for (std::int64_t i = 0; i < a.count; ++i) {
      // Counts from the nearer end, so that both ends are exact.
      const bool near_start = i < a.count - i;
      const double v =
          near_start ? a.start + static_cast<double>(i) * step : a.end - static_cast<double>(a.count - 1 - i) * step;
      write<double>(a.dtype, launch.out[0], i, v);
    }
  });
}

std::unique_ptr<Plan> plan_eye(const PlanRequest& request) {
  const auto a = request.attrs.as<op::EyeAttrs>();
  const std::size_t bytes = static_cast<std::size_t>(a.rows * a.cols) * size_of(a.dtype);
  return make_plan([=](const Launch& launch) {
    std::memset(launch.out[0], 0, bytes);
    for (std::int64_t i = 0; i < std::min(a.rows, a.cols); ++i)
      write<double>(a.dtype, launch.out[0], i * a.cols + i, 1);
  });
}

std::unique_ptr<Plan> plan_meshgrid(const PlanRequest& request) {
  const bool swapped = request.attrs.as<op::MeshgridAttrs>().indexing.str() == "xy";
  const Shape shape = request.out[0].shape;
  const std::size_t count = request.in.size(), element = size_of(request.in[0].dtype);
  return make_plan([=](const Launch& launch) {
    for (std::size_t k = 0; k < count; ++k) {
      const std::size_t axis = swapped && count > 1 && k < 2 ? 1 - k : k;
      reference::move_elements(shape, element, launch.in[k], nullptr, launch.out[k],
                               [axis](const reference::Index& index) { return index[axis]; });
    }
  });
}

}  // namespace

void register_reference_create(KernelTable& table) {
  table.add("arange", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_arange));
  table.add("linspace", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_linspace));
  table.add("eye", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_eye));
  table.add("meshgrid", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_meshgrid));
}

}  // namespace starling::kernels
