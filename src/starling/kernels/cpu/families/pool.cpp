#include "starling/kernels/cpu/pool/pool.h"

#include "starling/kernels/by_float.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/api/shape_ops.h"

namespace starling::kernels {
namespace {

template <class T>
const T* operand(const Launch& launch) {
  return static_cast<const T*>(launch.in[0]);
}
const std::int32_t* positions(const Launch& launch) { return static_cast<const std::int32_t*>(launch.in[1]); }
template <class T>
T* result(const Launch& launch) {
  return static_cast<T*>(launch.out[0]);
}

template <class Attributes>
PoolGeometry geometry(const PlanRequest& r) {
  return pool_geometry(r.in[0].shape, r.attrs.as<Attributes>(), 0, r.op.name.c_str());
}
PoolWindows even(const PlanRequest& r) { return even_windows(r.in[0].shape, r.out[0].shape); }

std::unique_ptr<Plan> plan_max(const PlanRequest& r, PoolWindows windows) {
  return for_floats(r.in[0].dtype, [&]<class T>() {
    return make_plan([w = std::move(windows), keep = r.out.size() > 1, threads = r.threads](const Launch& l) {
      max_pool(w, operand<T>(l), result<T>(l), keep ? static_cast<std::int32_t*>(l.out[1]) : nullptr, threads);
    });
  });
}

std::unique_ptr<Plan> plan_avg(const PlanRequest& r, PoolWindows windows) {
  return for_floats(r.in[0].dtype, [&]<class T>() {
    return make_plan([w = std::move(windows), threads = r.threads](const Launch& l) {
      avg_pool(w, operand<T>(l), result<T>(l), threads);
    });
  });
}

std::unique_ptr<Plan> plan_avg_backward(const PlanRequest& r, PoolWindows windows) {
  return for_floats(r.in[0].dtype, [&]<class T>() {
    const std::size_t rows = static_cast<std::size_t>(std::max(r.threads, 1) * windows.in[2]) * sizeof(T);
    return make_plan(rows, [w = std::move(windows), threads = r.threads](const Launch& l) {
      avg_pool_backward(w, operand<T>(l), result<T>(l), static_cast<T*>(l.scratch), threads);
    });
  });
}

std::unique_ptr<Plan> plan_lp(const PlanRequest& r) {
  return for_floats(r.in[0].dtype, [&]<class T>() {
    const double p = r.attrs.as<op::LpPoolAttrs>().p;
    return make_plan([w = regular_windows(geometry<op::LpPoolAttrs>(r)), p, threads = r.threads](const Launch& l) {
      lp_pool(w, p, operand<T>(l), result<T>(l), threads);
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
      max_pool_scatter(shape, operand<T>(l), positions(l), result<T>(l), threads);
    });
  });
}

std::unique_ptr<Plan> plan_gather(const PlanRequest& r) {
  const PositionShape shape = position_shape(r.in[0].shape, r.out[0].shape);
  return for_floats(r.in[0].dtype, [&]<class T>() {
    return make_plan([shape, threads = r.threads](const Launch& l) {
      max_pool_gather(shape, operand<T>(l), positions(l), result<T>(l), threads);
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

void register_cpu_pool(KernelTable& table) {
  const auto add = [&](const std::string& op, auto plan) {
    table.add(op, DeviceKind::cpu, {"windows", Accepts::contiguous, plan});
  };
  for (const char* dims : {"1d", "2d", "3d"}) {
    const std::string name = std::string("pool") + dims;
    const auto max = [](const PlanRequest& r) { return plan_max(r, regular_windows(geometry<op::MaxPoolAttrs>(r))); };
    add("max_" + name, max);
    add("max_" + name + "_values", max);
    add("avg_" + name,
        [](const PlanRequest& r) { return plan_avg(r, avg_windows(r.in[0].shape, r.attrs.as<op::AvgPoolAttrs>())); });
    add("lp_" + name, plan_lp);
    add("adaptive_max_" + name, [](const PlanRequest& r) { return plan_max(r, even(r)); });
    add("adaptive_avg_" + name, [](const PlanRequest& r) { return plan_avg(r, even(r)); });
  }
  add("global_max_pool", [](const PlanRequest& r) { return plan_max(r, even(r)); });
  add("global_avg_pool", [](const PlanRequest& r) { return plan_avg(r, even(r)); });
  add("max_pool_backward", plan_scatter);
  add("max_pool_gather", plan_gather);
  add("avg_pool_backward", plan_regular_backward);
  add("adaptive_avg_pool_backward",
      [](const PlanRequest& r) { return plan_avg_backward(r, even_windows(r.out[0].shape, r.in[0].shape)); });
}

}  // namespace starling::kernels
