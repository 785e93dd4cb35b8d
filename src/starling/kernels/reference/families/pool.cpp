#include "starling/base/error.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/pool_geometry.h"

namespace starling::kernels {
namespace {

using reference::for_floats;

// Calls f(element) for the elements of window i along one axis.
template <class F>
void along(const PoolAxis& axis, std::int64_t i, F&& f) {
  for (std::int64_t tap = axis.first_tap(i); tap < axis.end_tap(i); ++tap) f(axis.start(i) + tap * axis.dilation);
}

struct EvenAxis {
  std::int64_t in, out;
};
template <class F>
void along(const EvenAxis& axis, std::int64_t i, F&& f) {
  const std::int64_t end = ((i + 1) * axis.in + axis.out - 1) / axis.out;
  for (std::int64_t at = i * axis.in / axis.out; at < end; ++at) f(at);
}

template <class Axis>
struct Windows {
  std::int64_t planes;
  std::array<Axis, 3> axes;

  std::int64_t in_volume() const { return axes[0].in * axes[1].in * axes[2].in; }
  std::int64_t outputs() const { return planes * axes[0].out * axes[1].out * axes[2].out; }

  // Calls begin(window, i, j, k), then tap(window, element of x, position in the image) for its elements in order.
  template <class Begin, class Tap>
  void each(Begin&& begin, Tap&& tap) const {
    std::int64_t at = 0;
    for (std::int64_t plane = 0; plane < planes; ++plane)
      for (std::int64_t i = 0; i < axes[0].out; ++i)
        for (std::int64_t j = 0; j < axes[1].out; ++j)
          for (std::int64_t k = 0; k < axes[2].out; ++k, ++at) {
            begin(at, i, j, k);
            along(axes[0], i, [&](std::int64_t d) {
              along(axes[1], j, [&](std::int64_t h) {
                along(axes[2], k, [&](std::int64_t w) {
                  const std::int64_t place = (d * axes[1].in + h) * axes[2].in + w;
                  tap(at, plane * in_volume() + place, place);
                });
              });
            });
          }
  }
};

Windows<PoolAxis> regular(const PoolGeometry& g) { return {g.planes, g.axes}; }
Windows<EvenAxis> even(const Shape& x, const Shape& y) {
  Windows<EvenAxis> windows{x[0] * x[1], {{{1, 1}, {1, 1}, {1, 1}}}};
  for (int i = 2; i < x.rank(); ++i) windows.axes[static_cast<std::size_t>(5 - x.rank() + i - 2)] = {x[i], y[i]};
  return windows;
}

template <class Axis>
std::unique_ptr<Plan> plan_max(const PlanRequest& request, Windows<Axis> windows) {
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

// Divisors as double, so that no product of large kernels overflows.
double divisor_of(const std::array<PoolAxis, 3>& axes, const op::AvgPoolAttrs& a, std::int64_t i, std::int64_t j,
                  std::int64_t k) {
  if (a.divisor > 0) return static_cast<double>(a.divisor);
  return static_cast<double>(axes[0].counted(i, a.count_include_pad)) *
         static_cast<double>(axes[1].counted(j, a.count_include_pad)) *
         static_cast<double>(axes[2].counted(k, a.count_include_pad));
}
double divisor_of(const std::array<EvenAxis, 3>& axes, const op::AvgPoolAttrs&, std::int64_t i, std::int64_t j,
                  std::int64_t k) {
  std::int64_t count[3] = {0, 0, 0};
  along(axes[0], i, [&](auto) { ++count[0]; });
  along(axes[1], j, [&](auto) { ++count[1]; });
  along(axes[2], k, [&](auto) { ++count[2]; });
  return static_cast<double>(count[0] * count[1] * count[2]);
}

template <class Axis>
std::unique_ptr<Plan> plan_avg(const PlanRequest& request, Windows<Axis> windows, op::AvgPoolAttrs a) {
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
std::unique_ptr<Plan> plan_avg_backward(const PlanRequest& request, Windows<Axis> windows, op::AvgPoolAttrs a) {
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

std::unique_ptr<Plan> plan_lp(const PlanRequest& request, Windows<PoolAxis> windows, double p) {
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

std::unique_ptr<Plan> plan_gather(const PlanRequest& request) {
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([x = request.in[0].shape, y = request.out[0].shape](const Launch& launch) {
      each_position(x, y, static_cast<const std::int32_t*>(launch.in[1]), [&](auto i, auto from) {
        static_cast<T*>(launch.out[0])[i] = static_cast<const T*>(launch.in[0])[from];
      });
    });
  });
}

template <class Attributes>
Windows<PoolAxis> windows_of(const PlanRequest& r) {
  return regular(pool_geometry(r.in[0].shape, r.attrs.as<Attributes>(), 0, r.op.name.c_str()));
}
Windows<EvenAxis> even_of(const PlanRequest& r) { return even(r.in[0].shape, r.out[0].shape); }

std::unique_ptr<Plan> plan_regular_backward(const PlanRequest& r) {
  const auto& a = r.attrs.as<op::AvgPoolGradAttrs>();
  const op::AvgPoolAttrs forward{a.kernel, a.stride, a.padding, a.ceil_mode, a.count_include_pad, a.divisor};
  return plan_avg_backward(r, regular(pool_geometry(a.shape, forward, 0, "avg_pool_backward")), forward);
}

}  // namespace

void register_reference_pool(KernelTable& table) {
  const auto add = [&](const std::string& op, auto plan) {
    table.add(op, DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan));
  };
  for (const char* dims : {"1d", "2d", "3d"}) {
    const std::string name = std::string("pool") + dims;
    const auto max = [](const PlanRequest& r) { return plan_max(r, windows_of<op::MaxPoolAttrs>(r)); };
    add("max_" + name, max);
    add("max_" + name + "_values", max);
    add("avg_" + name, [](const PlanRequest& r) {
      return plan_avg(r, windows_of<op::AvgPoolAttrs>(r), r.attrs.as<op::AvgPoolAttrs>());
    });
    add("lp_" + name, [](const PlanRequest& r) {
      return plan_lp(r, windows_of<op::LpPoolAttrs>(r), r.attrs.as<op::LpPoolAttrs>().p);
    });
    add("adaptive_max_" + name, [](const PlanRequest& r) { return plan_max(r, even_of(r)); });
    add("adaptive_avg_" + name, [](const PlanRequest& r) { return plan_avg(r, even_of(r), {}); });
  }
  add("global_max_pool", [](const PlanRequest& r) { return plan_max(r, even_of(r)); });
  add("global_avg_pool", [](const PlanRequest& r) { return plan_avg(r, even_of(r), {}); });
  add("max_pool_backward", plan_scatter);
  add("max_pool_gather", plan_gather);
  add("avg_pool_backward", plan_regular_backward);
  add("adaptive_avg_pool_backward",
      [](const PlanRequest& r) { return plan_avg_backward(r, even(r.out[0].shape, r.in[0].shape), {}); });
}

}  // namespace starling::kernels
