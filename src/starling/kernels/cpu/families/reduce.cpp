#include "starling/ops/api/reduce.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "starling/kernels/cpu/reduce/extreme_backward.h"
#include "starling/kernels/cpu/reduce/fold_plain.h"
#include "starling/kernels/cpu/reduce/reduce_passes.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

enum class Reduction { sum, mean, max, min, prod };

template <class T>
void run_pass(Reduction reduction, const T* x, T* y, const ReduceShape& shape, double scale) {
  switch (reduction) {
    case Reduction::sum:
    case Reduction::mean: return reduce_sum(x, y, shape, scale);
    case Reduction::max: return reduce_max(x, y, shape);
    case Reduction::min: return reduce_min(x, y, shape);
    case Reduction::prod: return reduce_prod(x, y, shape);
  }
}

double over_nothing(Reduction reduction) {
  if (reduction == Reduction::mean) return std::numeric_limits<double>::quiet_NaN();
  return reduction == Reduction::prod ? 1 : 0;
}

template <class T>
std::unique_ptr<Plan> plan_floats(const PlanRequest& request, Reduction reduction) {
  const auto n = request.in[0].shape.numel(), results = request.out[0].shape.numel();
  const double whole = reduction == Reduction::mean ? static_cast<double>(results) / static_cast<double>(n) : 1.0;
  const auto pass = [=](const T* x, T* y, const ReduceShape& shape, bool last) {
    run_pass(reduction, x, y, shape, last ? whole : 1.0);
  };
  const auto copy = [](const T* x, T* y, std::int64_t count) { std::copy_n(x, count, y); };
  return plan_passes<T, T>(request, request.attrs.as<op::ReduceAttrs>().axes, static_cast<T>(over_nothing(reduction)),
                           pass, pass, copy);
}

// Integer reduction: f(acc, x) with acc of type Out, the same for the results of earlier passes.
template <class In, class Out, class F>
std::unique_ptr<Plan> plan_integers(const PlanRequest& request, Out identity, F f) {
  const auto first = [=](const In* x, Out* y, const ReduceShape& s, bool) { fold_plain(x, y, s, identity, f, f); };
  const auto later = [=](const Out* x, Out* y, const ReduceShape& s, bool) { fold_plain(x, y, s, identity, f, f); };
  const auto copy = [=](const In* x, Out* y, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) y[i] = f(identity, x[i]);
  };
  return plan_passes<In, Out>(request, request.attrs.as<op::ReduceAttrs>().axes, identity, first, later, copy);
}

template <class In>
std::unique_ptr<Plan> plan_integer(const PlanRequest& request, Reduction reduction) {
  const auto plus = [](std::int64_t a, auto x) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(x));
  };
  const auto times = [](std::int64_t a, auto x) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(x));
  };
  if (reduction == Reduction::sum) return plan_integers<In, std::int64_t>(request, 0, plus);
  if (reduction == Reduction::prod) return plan_integers<In, std::int64_t>(request, 1, times);
  if constexpr (!std::is_same_v<In, bool>) {
    const auto larger = [](In a, In x) { return a < x ? x : a; };
    const auto smaller = [](In a, In x) { return x < a ? x : a; };
    if (reduction == Reduction::max) return plan_integers<In, In>(request, std::numeric_limits<In>::lowest(), larger);
    if (reduction == Reduction::min) return plan_integers<In, In>(request, std::numeric_limits<In>::max(), smaller);
  }
  return nullptr;
}

auto planner(Reduction reduction) {
  return [reduction](const PlanRequest& request) -> std::unique_ptr<Plan> {
    switch (request.in[0].dtype) {
      case DType::i64: return plan_integer<std::int64_t>(request, reduction);
      case DType::i32: return plan_integer<std::int32_t>(request, reduction);
      case DType::u8: return plan_integer<std::uint8_t>(request, reduction);
      case DType::boolean: return plan_integer<bool>(request, reduction);
      case DType::f32: return plan_floats<float>(request, reduction);
      case DType::f64: return plan_floats<double>(request, reduction);
      default: return nullptr;
    }
  };
}

auto plan_test(bool every) {
  return [every](const PlanRequest& request) -> std::unique_ptr<Plan> {
    const auto any = [](bool a, auto x) { return a | (x != decltype(x){}); };
    const auto all = [](bool a, auto x) { return a & (x != decltype(x){}); };
    const auto plan = [&]<class In>() {
      return every ? plan_integers<In, bool>(request, true, all) : plan_integers<In, bool>(request, false, any);
    };
    switch (request.in[0].dtype) {
      case DType::f32: return plan.template operator()<float>();
      case DType::f64: return plan.template operator()<double>();
      case DType::i64: return plan.template operator()<std::int64_t>();
      case DType::i32: return plan.template operator()<std::int32_t>();
      case DType::u8: return plan.template operator()<std::uint8_t>();
      case DType::boolean: return plan.template operator()<bool>();
      default: return nullptr;
    }
  };
}

template <class T>
std::unique_ptr<Plan> plan_extreme_backward(const PlanRequest& request, bool largest) {
  const ReduceGroups groups = reduce_groups(request.in[1].shape, request.attrs.as<op::ReduceAttrs>().axes);
  const std::int64_t n = request.in[1].shape.numel(), results = request.in[0].shape.numel();
  return make_plan(static_cast<std::size_t>(results), [=](const Launch& launch) {
    if (n == 0) return;
    extreme_backward<T>(
        {static_cast<const T*>(launch.in[0]), static_cast<const T*>(launch.in[1]), static_cast<const T*>(launch.in[2]),
         static_cast<T*>(launch.out[0]), static_cast<std::uint8_t*>(launch.scratch), largest},
        groups);
  });
}

auto extreme_backward_planner(bool largest) {
  return [largest](const PlanRequest& request) -> std::unique_ptr<Plan> {
    if (request.in[0].dtype == DType::f32) return plan_extreme_backward<float>(request, largest);
    if (request.in[0].dtype == DType::f64) return plan_extreme_backward<double>(request, largest);
    return nullptr;
  };
}

}  // namespace

void register_cpu_reduce(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cpu, {"simd", Accepts::contiguous, plan});
  };
  add("sum", planner(Reduction::sum));
  add("mean", planner(Reduction::mean));
  add("max", planner(Reduction::max));
  add("min", planner(Reduction::min));
  add("prod", planner(Reduction::prod));
  add("any", plan_test(false));
  add("all", plan_test(true));
  add("max_backward", extreme_backward_planner(true));
  add("min_backward", extreme_backward_planner(false));
}

}  // namespace starling::kernels
