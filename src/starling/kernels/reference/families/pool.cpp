#include "starling/ops/pool.h"

#include "starling/base/error.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"

namespace starling {
namespace {

using reference::for_floats;

struct Windows {
  Shape x, y;
  Pair kernel, stride, padding;

  // Calls f(index of y, tap of the window, index of x) for every element inside the image, windows in order, taps in
  // order.
  template <class F>
  void each(F&& f) const {
    std::int64_t at = 0;
    for (std::int64_t plane = 0; plane < y[0] * y[1]; ++plane)
      for (std::int64_t i = 0; i < y[2]; ++i)
        for (std::int64_t j = 0; j < y[3]; ++j) each_tap(plane, i, j, at++, f);
  }
  // The element of x that a tap of a window means; throws when it lies outside.
  std::int64_t element(std::int64_t at, std::int64_t tap) const {
    const std::int64_t plane = at / (y[2] * y[3]), i = at / y[3] % y[2], j = at % y[3];
    const std::int64_t row = i * stride[0] - padding[0] + tap / kernel[1],
                       col = j * stride[1] - padding[1] + tap % kernel[1];
    check(tap < kernel[0] * kernel[1] && row >= 0 && row < x[2] && col >= 0 && col < x[3],
          "[max_pool2d] expected an index inside the image, got {} for window {}", tap, at);
    return (plane * x[2] + row) * x[3] + col;
  }

 private:
  template <class F>
  void each_tap(std::int64_t plane, std::int64_t i, std::int64_t j, std::int64_t at, F&& f) const {
    for (std::int64_t tap = 0; tap < kernel[0] * kernel[1]; ++tap) {
      const std::int64_t row = i * stride[0] - padding[0] + tap / kernel[1],
                         col = j * stride[1] - padding[1] + tap % kernel[1];
      if (row >= 0 && row < x[2] && col >= 0 && col < x[3]) f(at, tap, (plane * x[2] + row) * x[3] + col);
    }
  }
};

Windows forward_windows(const PlanRequest& request) {
  const auto& a = request.attrs.as<Pool2dAttrs>();
  return {request.in[0].shape, request.out[0].shape, a.kernel, a.stride, a.padding};
}
Windows backward_windows(const PlanRequest& request) {
  const auto& a = request.attrs.as<Pool2dGradAttrs>();
  return {a.shape, request.in[0].shape, a.kernel, a.stride, a.padding};
}

std::unique_ptr<Plan> plan_max(const PlanRequest& request) {
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([windows = forward_windows(request)](const Launch& launch) {
      const auto* x = static_cast<const T*>(launch.in[0]);
      auto* y = static_cast<T*>(launch.out[0]);
      auto* index = static_cast<std::uint8_t*>(launch.out[1]);
      std::int64_t seen = -1;
      windows.each([&](auto at, auto tap, auto ix) {
        const bool first = at != seen;
        seen = at;
        if (!first && !(x[ix] > y[at]) && !(x[ix] != x[ix] && y[at] == y[at])) return;
        y[at] = x[ix];
        index[at] = static_cast<std::uint8_t>(tap);
      });
    });
  });
}

std::unique_ptr<Plan> plan_max_backward(const PlanRequest& request) {
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([windows = backward_windows(request)](const Launch& launch) {
      const auto* dy = static_cast<const T*>(launch.in[0]);
      const auto* index = static_cast<const std::uint8_t*>(launch.in[1]);
      auto* dx = static_cast<T*>(launch.out[0]);
      std::fill_n(dx, windows.x.numel(), T{0});
      for (std::int64_t i = 0; i < windows.y.numel(); ++i) dx[windows.element(i, index[i])] += dy[i];
    });
  });
}

std::unique_ptr<Plan> plan_gather(const PlanRequest& request) {
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([windows = forward_windows(request)](const Launch& launch) {
      const auto* index = static_cast<const std::uint8_t*>(launch.in[1]);
      for (std::int64_t i = 0; i < windows.y.numel(); ++i) {
        static_cast<T*>(launch.out[0])[i] = static_cast<const T*>(launch.in[0])[windows.element(i, index[i])];
      }
    });
  });
}

std::unique_ptr<Plan> plan_avg(const PlanRequest& request) {
  const Windows windows = forward_windows(request);
  const auto n = windows.y.numel();
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan(static_cast<std::size_t>(n) * sizeof(double), [=](const Launch& launch) {
      auto* sums = static_cast<double*>(launch.scratch);
      std::fill_n(sums, n, 0.0);
      windows.each(
          [&](auto at, auto, auto ix) { sums[at] += static_cast<double>(static_cast<const T*>(launch.in[0])[ix]); });
      const auto taps = static_cast<double>(windows.kernel[0] * windows.kernel[1]);
      for (std::int64_t i = 0; i < n; ++i) static_cast<T*>(launch.out[0])[i] = static_cast<T>(sums[i] / taps);
    });
  });
}

std::unique_ptr<Plan> plan_avg_backward(const PlanRequest& request) {
  return for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([windows = backward_windows(request)](const Launch& launch) {
      auto* dx = static_cast<T*>(launch.out[0]);
      std::fill_n(dx, windows.x.numel(), T{0});
      const auto taps = static_cast<T>(windows.kernel[0] * windows.kernel[1]);
      windows.each([&](auto at, auto, auto ix) { dx[ix] += static_cast<const T*>(launch.in[0])[at] / taps; });
    });
  });
}

}  // namespace

void register_reference_pool(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan));
  };
  add("max_pool2d", plan_max);
  add("max_pool2d_backward", plan_max_backward);
  add("max_pool2d_gather", plan_gather);
  add("avg_pool2d", plan_avg);
  add("avg_pool2d_backward", plan_avg_backward);
}

}  // namespace starling
