#include "starling/ops/api/random.h"

#include "starling/kernels/cpu/random/random.h"
#include "starling/kernels/cpu/random/random_runs.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/attrs/random.h"

namespace starling::kernels {
namespace {

template <class T>
using Fill = void (*)(T*, std::int64_t, const PhiloxKey&, std::int64_t, double, double);

template <class T>
std::unique_ptr<Plan> make_fill(const op::RandomAttrs& a, Fill<T> fill) {
  return make_plan([a, fill, runs = RandomRuns(a.shape, a.global, a.offset)](const Launch& launch) {
    const PhiloxKey key = key_of(launch.in[0], a.site);
    runs.each([&](std::int64_t at, std::int64_t whole) {
      fill(static_cast<T*>(launch.out[0]) + at, runs.length, key, whole, a.a, a.b);
    });
  });
}

auto fill_planner(Fill<float> f32, Fill<double> f64) {
  return [=](const PlanRequest& request) -> std::unique_ptr<Plan> {
    const auto& a = request.attrs.as<op::RandomAttrs>();
    if (a.dtype == DType::f32) return make_fill<float>(a, f32);
    if (a.dtype == DType::f64) return make_fill<double>(a, f64);
    return nullptr;
  };
}

template <class T>
std::unique_ptr<Plan> make_dropout(const PlanRequest& request) {
  const auto& a = request.attrs.as<op::DropoutAttrs>();
  return make_plan(
      [keep = a.keep, site = a.site, runs = RandomRuns(request.in[0].shape, a.global, a.offset)](const Launch& launch) {
        const PhiloxKey key = key_of(launch.in[1], site);
        const auto* x = static_cast<const T*>(launch.in[0]);
        auto* y = static_cast<T*>(launch.out[0]);
        runs.each([&](std::int64_t at, std::int64_t whole) { dropout(x + at, y + at, runs.length, key, whole, keep); });
      });
}

std::unique_ptr<Plan> plan_dropout(const PlanRequest& request) {
  if (request.in[0].dtype == DType::f32) return make_dropout<float>(request);
  if (request.in[0].dtype == DType::f64) return make_dropout<double>(request);
  return nullptr;
}

}  // namespace

void register_cpu_random(KernelTable& table) {
  table.add("uniform", DeviceKind::cpu,
            {"simd", Accepts::contiguous, fill_planner(&fill_uniform<float>, &fill_uniform<double>)});
  table.add("normal", DeviceKind::cpu,
            {"simd", Accepts::contiguous, fill_planner(&fill_normal<float>, &fill_normal<double>)});
  table.add("dropout", DeviceKind::cpu, {"simd", Accepts::contiguous, plan_dropout});
}

}  // namespace starling::kernels
