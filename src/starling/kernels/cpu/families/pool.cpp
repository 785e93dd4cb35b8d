#include "starling/kernels/by_float.h"
#include "starling/kernels/cpu/pool/pool_plans.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

const std::int32_t* positions(const Launch& launch) { return static_cast<const std::int32_t*>(launch.in[1]); }

std::unique_ptr<Plan> plan_max(const PlanRequest& r, PoolWindows windows) {
  return for_floats(r.in[0].dtype, [&]<class T>() {
    return make_plan([w = std::move(windows), keep = r.out.size() > 1, threads = r.threads](const Launch& l) {
      max_pool(w, input<T>(l), output<T>(l), keep ? static_cast<std::int32_t*>(l.out[1]) : nullptr, threads);
    });
  });
}

PositionShape position_shape(const Shape& x, const Shape& y) {
  PositionShape s{.planes = x[0] * x[1], .image = 1, .positions = 1};
  if (s.planes == 0) return s;
  for (int i = 2; i < x.rank(); ++i) s.image *= x[i], s.positions *= y[i];
  const bool twice = x.rank() == 4 && x[2] == 2 * y[2] && x[3] == 2 * y[3];
  s.row = twice ? y[3] : 0;
  return s;
}

std::unique_ptr<Plan> plan_scatter(const PlanRequest& r) {
  const PositionShape shape = position_shape(r.out[0].shape, r.in[0].shape);
  return for_floats(r.in[0].dtype, [&]<class T>() {
    return make_plan([shape, threads = r.threads](const Launch& l) {
      max_pool_scatter(shape, input<T>(l), positions(l), output<T>(l), threads);
    });
  });
}

std::unique_ptr<Plan> plan_gather(const PlanRequest& r) {
  const PositionShape shape = position_shape(r.in[0].shape, r.out[0].shape);
  return for_floats(r.in[0].dtype, [&]<class T>() {
    return make_plan([shape, threads = r.threads](const Launch& l) {
      max_pool_gather(shape, input<T>(l), positions(l), output<T>(l), threads);
    });
  });
}

}  // namespace

void register_cpu_pool(KernelTable& table) {
  const auto add = [&](const std::string& op, auto plan) {
    table.add(op, DeviceKind::cpu, {"windows", Accepts::contiguous, plan});
  };
  for (const char* dims : {"1d", "2d", "3d"}) {
    const std::string name = std::string("pool") + dims;
    const auto max = [](const PlanRequest& r) {
      return plan_max(r, regular_windows(pool_geometry_of<op::MaxPoolAttrs>(r)));
    };
    add("max_" + name, max);
    add("max_" + name + "_values", max);
    add("adaptive_max_" + name, [](const PlanRequest& r) { return plan_max(r, even_windows(r)); });
  }
  add("global_max_pool", [](const PlanRequest& r) { return plan_max(r, even_windows(r)); });
  add("max_pool_backward", plan_scatter);
  add("max_pool_gather", plan_gather);
}

}  // namespace starling::kernels
