#include "starling/kernels/by_float.h"
#include "starling/kernels/cpu/pool/pool_plans.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/api/shape_ops.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_avg(const PlanRequest& r, PoolWindows windows) {
  return for_floats(r.in[0].dtype, [&]<class T>() {
    return make_plan([w = std::move(windows), threads = r.threads](const Launch& l) {
      avg_pool(w, input<T>(l), output<T>(l), threads);
    });
  });
}

std::unique_ptr<Plan> plan_avg_backward(const PlanRequest& r, PoolWindows windows) {
  return for_floats(r.in[0].dtype, [&]<class T>() {
    const std::size_t rows = static_cast<std::size_t>(std::max(r.threads, 1) * windows.in[2]) * sizeof(T);
    return make_plan(rows, [w = std::move(windows), threads = r.threads](const Launch& l) {
      avg_pool_backward(w, input<T>(l), output<T>(l), static_cast<T*>(l.scratch), threads);
    });
  });
}

PoolWindows avg_windows(const Shape& x, const op::AvgPoolAttrs& a) {
  PoolWindows w = regular_windows(pool_geometry(x, a, 0, "avg_pool"), a.count_include_pad);
  w.divisor = static_cast<double>(a.divisor);
  return w;
}

std::unique_ptr<Plan> plan_regular_backward(const PlanRequest& r) {
  const auto& a = r.attrs.as<op::AvgPoolGradAttrs>();
  return plan_avg_backward(
      r, avg_windows(a.shape, {a.kernel, a.stride, a.padding, a.ceil_mode, a.count_include_pad, a.divisor}));
}

}  // namespace

void register_cpu_avg_pool(KernelTable& table) {
  const auto add = [&](const std::string& op, auto plan) {
    table.add(op, DeviceKind::cpu, {"windows", Accepts::contiguous, plan});
  };
  const auto regular = [](const PlanRequest& r) {
    return plan_avg(r, avg_windows(r.in[0].shape, r.attrs.as<op::AvgPoolAttrs>()));
  };
  const auto even = [](const PlanRequest& r) { return plan_avg(r, even_windows(r)); };
  for (const std::string dims : {"1d", "2d", "3d"}) {
    add("avg_pool" + dims, regular);
    add("adaptive_avg_pool" + dims, even);
  }
  add("global_avg_pool", even);
  add("avg_pool_backward", plan_regular_backward);
  add("adaptive_avg_pool_backward",
      [](const PlanRequest& r) { return plan_avg_backward(r, even_windows(r.out[0].shape, r.in[0].shape)); });
}

}  // namespace starling::kernels
