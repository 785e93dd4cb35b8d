#include <cmath>

#include "starling/base/error.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/reference/pool_walk.h"
#include "starling/ops/api/shape_ops.h"

namespace starling::kernels {
namespace {

using reference::for_floats;

template <class Axis>
std::unique_ptr<Plan> plan_max(const PlanRequest& request, reference::PoolWalk<Axis> windows) {
  const bool keep = request.out.size() > 1;
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      const auto* x = static_cast<const T*>(launch.in[0]);
      auto* y = static_cast<T*>(launch.out[0]);
      auto* index = keep ? static_cast<std::int32_t*>(launch.out[1]) : nullptr;
      bool first = true;
      windows.each([&](auto...) { first = true; },
                   [&](auto at, auto from, auto place) {
                     if (!first && !(x[from] > y[at]) && !(std::isnan(x[from]) && !std::isnan(y[at]))) return;
                     first = false;
                     y[at] = x[from];
                     if (index) index[at] = static_cast<std::int32_t>(place);
                   });
    });
  });
}

// Calls f(index of the window, element of x) for every position.
template <class F>
void each_position(const Shape& x, const Shape& y, const std::int32_t* index, F&& f) {
  const std::int64_t planes = y[0] * y[1], windows = planes > 0 ? y.numel() / planes : 0;
  const std::int64_t volume = planes > 0 ? x.numel() / planes : 0;
  for (std::int64_t i = 0; i < y.numel(); ++i) {
    check(index[i] >= 0 && index[i] < volume, "[max_pool] expected positions in [0, {}), got {} at {}", volume,
          index[i], i);
    f(i, i / windows * volume + index[i]);
  }
}

std::unique_ptr<Plan> plan_scatter(const PlanRequest& request) {
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([x = request.out[0].shape, y = request.in[0].shape](const Launch& launch) {
      auto* dx = static_cast<T*>(launch.out[0]);
      std::fill_n(dx, x.numel(), T{0});
      each_position(x, y, static_cast<const std::int32_t*>(launch.in[1]),
                    [&](auto i, auto to) { dx[to] += static_cast<const T*>(launch.in[0])[i]; });
    });
  });
}

// True if the element at this place lies in a window along one dimension.
bool lies_in(const PoolAxis& axis, std::int64_t window, std::int64_t at) {
  const std::int64_t from = at - axis.start(window);
  return from >= 0 && from % axis.dilation == 0 && from / axis.dilation < axis.kernel;
}

std::unique_ptr<Plan> plan_window_scatter(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::MaxPoolGradAttrs>();
  const PoolGeometry g =
      pool_geometry(a.shape, {a.kernel, a.stride, a.padding, a.dilation, a.ceil_mode}, 2, request.op.name.c_str());
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([g, x = request.out[0].shape, y = request.in[0].shape](const Launch& launch) {
      const PoolAxis &rows = g.axes[1], &columns = g.axes[2];
      auto* dx = static_cast<T*>(launch.out[0]);
      std::fill_n(dx, x.numel(), T{0});
      each_position(x, y, static_cast<const std::int32_t*>(launch.in[1]), [&](auto i, auto to) {
        const std::int64_t at = to % g.in_volume();
        if (lies_in(rows, i / columns.out % rows.out, at / columns.in) &&
            lies_in(columns, i % columns.out, at % columns.in))
          dx[to] += static_cast<const T*>(launch.in[0])[i];
      });
    });
  });
}

std::unique_ptr<Plan> plan_gather(const PlanRequest& request) {
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([x = request.in[0].shape, y = request.out[0].shape](const Launch& launch) {
      each_position(x, y, static_cast<const std::int32_t*>(launch.in[1]), [&](auto i, auto from) {
        static_cast<T*>(launch.out[0])[i] = static_cast<const T*>(launch.in[0])[from];
      });
    });
  });
}

}  // namespace

void register_reference_pool(KernelTable& table) {
  const auto add = [&](const std::string& op, auto plan) {
    table.add(op, DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan));
  };
  for (const char* dims : {"1d", "2d", "3d"}) {
    const std::string name = std::string("pool") + dims;
    const auto max = [](const PlanRequest& r) { return plan_max(r, reference::pool_walk<op::MaxPoolAttrs>(r)); };
    add("max_" + name, max);
    add("max_" + name + "_values", max);
    add("adaptive_max_" + name, [](const PlanRequest& r) { return plan_max(r, reference::even_pool_walk(r)); });
  }
  add("global_max_pool", [](const PlanRequest& r) { return plan_max(r, reference::even_pool_walk(r)); });
  add("max_pool_backward", plan_scatter);
  add("max_pool2d_backward", plan_window_scatter);
  add("max_pool_gather", plan_gather);
}

}  // namespace starling::kernels
