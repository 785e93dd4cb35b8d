#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/reference/pool_walk.h"
#include "starling/ops/api/shape_ops.h"

namespace starling::kernels {
namespace {

using reference::for_floats;

// Divisors as double, so that no product of large kernels overflows.
double divisor_of(const std::array<PoolAxis, 3>& axes, const op::AvgPoolAttrs& a, std::int64_t i, std::int64_t j,
                  std::int64_t k) {
  if (a.divisor > 0) return static_cast<double>(a.divisor);
  return static_cast<double>(axes[0].counted(i, a.count_include_pad)) *
         static_cast<double>(axes[1].counted(j, a.count_include_pad)) *
         static_cast<double>(axes[2].counted(k, a.count_include_pad));
}
double divisor_of(const std::array<reference::EvenAxis, 3>& axes, const op::AvgPoolAttrs&, std::int64_t i,
                  std::int64_t j, std::int64_t k) {
  std::int64_t count[3] = {0, 0, 0};
  reference::along(axes[0], i, [&](auto) { ++count[0]; });
  reference::along(axes[1], j, [&](auto) { ++count[1]; });
  reference::along(axes[2], k, [&](auto) { ++count[2]; });
  return static_cast<double>(count[0] * count[1] * count[2]);
}

template <class Axis>
std::unique_ptr<Plan> plan_avg(const PlanRequest& request, reference::PoolWalk<Axis> windows, op::AvgPoolAttrs a) {
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      const auto* x = static_cast<const T*>(launch.in[0]);
      auto* y = static_cast<T*>(launch.out[0]);
      double sum = 0, divisor = 1;
      windows.each(
          [&](auto at, auto i, auto j, auto k) {
            sum = 0;
            y[at] = 0;
            divisor = divisor_of(windows.axes, a, i, j, k);
          },
          [&](auto at, auto from, auto) {
            sum += static_cast<double>(x[from]);
            y[at] = static_cast<T>(sum / divisor);
          });
    });
  });
}

template <class Axis>
std::unique_ptr<Plan> plan_avg_backward(const PlanRequest& request, reference::PoolWalk<Axis> windows,
                                        op::AvgPoolAttrs a) {
  return for_floats(request.in[0].dtype, [&]<class T>() {
    const std::int64_t elements = request.out[0].shape.numel();
    return make_plan(static_cast<std::size_t>(elements) * sizeof(double), [=](const Launch& launch) {
      const auto* dy = static_cast<const T*>(launch.in[0]);
      auto* sums = static_cast<double*>(launch.scratch);
      std::fill_n(sums, elements, 0.0);
      double divisor = 1;
      windows.each([&](auto, auto i, auto j, auto k) { divisor = divisor_of(windows.axes, a, i, j, k); },
                   [&](auto at, auto from, auto) { sums[from] += static_cast<double>(dy[at]) / divisor; });
      for (std::int64_t i = 0; i < elements; ++i) static_cast<T*>(launch.out[0])[i] = static_cast<T>(sums[i]);
    });
  });
}

std::unique_ptr<Plan> plan_regular_backward(const PlanRequest& r) {
  const auto& a = r.attrs.as<op::AvgPoolGradAttrs>();
  const op::AvgPoolAttrs forward{a.kernel, a.stride, a.padding, a.ceil_mode, a.count_include_pad, a.divisor};
  return plan_avg_backward(r, reference::pool_walk(pool_geometry(a.shape, forward, 0, "avg_pool_backward")), forward);
}

}  // namespace

void register_reference_avg_pool(KernelTable& table) {
  const auto add = [&](const std::string& op, auto plan) {
    table.add(op, DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan));
  };
  const auto regular = [](const PlanRequest& r) {
    return plan_avg(r, reference::pool_walk<op::AvgPoolAttrs>(r), r.attrs.as<op::AvgPoolAttrs>());
  };
  const auto even = [](const PlanRequest& r) { return plan_avg(r, reference::even_pool_walk(r), {}); };
  for (const std::string dims : {"1d", "2d", "3d"}) {
    add("avg_pool" + dims, regular);
    add("adaptive_avg_pool" + dims, even);
  }
  add("global_avg_pool", even);
  add("avg_pool_backward", plan_regular_backward);
  add("adaptive_avg_pool_backward", [](const PlanRequest& r) {
    return plan_avg_backward(r, reference::even_pool_walk(r.out[0].shape, r.in[0].shape), {});
  });
}

}  // namespace starling::kernels
