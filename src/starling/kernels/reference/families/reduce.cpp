#include "starling/ops/api/reduce.h"

#include <algorithm>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/reference/reduce_walk.h"

namespace starling::kernels {
namespace {

using reference::plan_reduction;
using reference::read;
using reference::write;

double plus(double a, double b) { return a + b; }
std::int64_t plus(std::int64_t a, std::int64_t b) {  // wraps
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
double times(double a, double b) { return a * b; }
std::int64_t times(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}

struct Sum {
  template <class V>
  V operator()(const auto& each) const {
    V total = 0;
    each([&](V x) { total = plus(total, x); });
    return total;
  }
};
struct Product {
  template <class V>
  V operator()(const auto& each) const {
    V total = 1;
    each([&](V x) { total = times(total, x); });
    return total;
  }
};
struct Mean {
  template <class V>
  V operator()(const auto& each) const {
    V total = 0;
    std::int64_t count = 0;
    each([&](V x) {
      total = plus(total, x);
      ++count;
    });
    if constexpr (std::is_floating_point_v<V>)
      return total / static_cast<V>(count);
    else
      return total;
  }
};
struct Extreme {
  bool largest;
  template <class V>
  V operator()(const auto& each) const {
    V best = 0;
    bool first = true;
    each([&](V x) {
      if (first || reference::beats(largest, x, best)) best = x;
      first = false;
    });
    return best;
  }
};
struct Test {
  bool every;
  template <class V>
  V operator()(const auto& each) const {
    bool found = false;
    each([&](V x) { found |= (x == V{0}) == every; });
    return found != every ? V{1} : V{0};
  }
};

template <class F>
auto planner(F f) {
  return
      [f](const PlanRequest& request) { return plan_reduction(request, request.attrs.as<op::ReduceAttrs>().axes, f); };
}

// Gradient of max and min: the first element equal to y gets dy. One byte of scratch per output marks it as assigned.
auto plan_extreme_backward(bool largest) {
  return [largest](const PlanRequest& request) -> std::unique_ptr<Plan> {
    const ArgDesc x = request.in[1];
    const Shape axes = op::reduced_axes(request.attrs.as<op::ReduceAttrs>().axes, x.shape.rank(), "reduce");
    Shape kept = contiguous_strides(op::reduced_shape(x.shape, axes, true));
    for (auto axis : axes) kept[static_cast<int>(axis)] = 0;
    const std::array<Shape, 2> strides{x.strides, kept};
    const DType dtype = x.dtype;
    const auto n = request.in[0].shape.numel();
    return make_plan(static_cast<std::size_t>(n), [=](const Launch& launch) {
      auto* given = static_cast<bool*>(launch.scratch);
      std::fill_n(given, n, false);
      for_each_offset(x.shape, strides, [&](const std::array<std::int64_t, 2>& at) {
        const double value = read<double>(dtype, launch.in[1], at[0]), best = read<double>(dtype, launch.in[2], at[1]);
        const bool reaches = (largest ? value >= best : value <= best) || value != value;
        const bool wins = reaches && !given[at[1]];
        given[at[1]] |= wins;
        write<double>(dtype, launch.out[0], at[0], wins ? read<double>(dtype, launch.in[0], at[1]) : 0.0);
      });
    });
  };
}

}  // namespace

void register_reference_reduce(KernelTable& table) {
  const auto add = [&](const char* op, Accepts accepts, auto plan) {
    table.add(op, DeviceKind::cpu, reference::kernel(accepts, plan));
  };
  add("sum", Accepts::strided, planner(Sum{}));
  add("prod", Accepts::strided, planner(Product{}));
  add("mean", Accepts::strided, planner(Mean{}));
  add("max", Accepts::strided, planner(Extreme{true}));
  add("min", Accepts::strided, planner(Extreme{false}));
  add("any", Accepts::strided, planner(Test{false}));
  add("all", Accepts::strided, planner(Test{true}));
  add("max_backward", Accepts::contiguous, plan_extreme_backward(true));
  add("min_backward", Accepts::contiguous, plan_extreme_backward(false));
}

}  // namespace starling::kernels
