#include "starling/ops/random.h"

#include "starling/kernels/cpu/simd/random.h"
#include "starling/kernels/kernel_table.h"

namespace starling {
namespace {

// A piece of a whole tensor as runs of neighbours: dimensions from the end are one run while the piece has all of them.
struct Runs {
  std::int64_t length = 1;
  Shape outer{};           // counts of runs
  Shape strides{};         // of the whole tensor, along them
  std::int64_t first = 0;  // place of the piece's first element

  Runs(const Shape& own, const Shape& global, const Shape& offset) {
    const Shape& whole = global.empty() ? own : global;
    const Shape steps = contiguous_strides(whole);
    for (int i = 0; i < offset.rank(); ++i) first += offset[i] * steps[i];
    int split = own.rank();
    while (split > 0) {
      length *= own[--split];
      if (own[split] != whole[split]) break;
    }
    for (int i = 0; i < split; ++i) {
      outer.push_back(own[i]);
      strides.push_back(steps[i]);
    }
  }

  // Calls f(place in the piece, place in the whole) for every run.
  template <class F>
  void each(F&& f) const {
    const std::int64_t count = outer.numel();
    if (length == 0) return;
    for (std::int64_t run = 0; run < count; ++run) {
      std::int64_t rest = run, at = first;
      for (int d = outer.rank() - 1; d >= 0; --d) {
        at += rest % outer[d] * strides[d];
        rest /= outer[d];
      }
      f(run * length, at);
    }
  }
};

PhiloxKey key_of(const void* key, std::int64_t site) {
  const auto* words = static_cast<const std::int64_t*>(key);
  return {static_cast<std::uint64_t>(words[0]), static_cast<std::uint64_t>(words[1]), static_cast<std::uint64_t>(site)};
}

template <class T>
using Fill = void (*)(T*, std::int64_t, const PhiloxKey&, std::int64_t, double, double);

template <class T>
std::unique_ptr<Plan> make_fill(const RandomAttrs& a, Fill<T> fill) {
  return make_plan([a, fill, runs = Runs(a.shape, a.global, a.offset)](const Launch& launch) {
    const PhiloxKey key = key_of(launch.in[0], a.site);
    runs.each([&](std::int64_t at, std::int64_t whole) {
      fill(static_cast<T*>(launch.out[0]) + at, runs.length, key, whole, a.a, a.b);
    });
  });
}

auto fill_planner(Fill<float> f32, Fill<double> f64) {
  return [=](const PlanRequest& request) -> std::unique_ptr<Plan> {
    const auto& a = request.attrs.as<RandomAttrs>();
    if (a.dtype == DType::f32) return make_fill<float>(a, f32);
    if (a.dtype == DType::f64) return make_fill<double>(a, f64);
    return nullptr;
  };
}

template <class T>
std::unique_ptr<Plan> make_dropout(const PlanRequest& request) {
  const auto& a = request.attrs.as<DropoutAttrs>();
  return make_plan(
      [keep = a.keep, site = a.site, runs = Runs(request.in[0].shape, a.global, a.offset)](const Launch& launch) {
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

}  // namespace starling
