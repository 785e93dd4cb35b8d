#include "starling/ops/reduce.h"

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/strides.h"

namespace starling {
namespace {

using reference::read;
using reference::write;

// The strides of a reduced tensor (with its lost dimensions back as 1) over the shape it was reduced from.
Shape spread_strides(const Shape& shape, const Attrs& attrs) {
  const Shape axes = reduced_axes(attrs.as<ReduceAttrs>().axes, shape.rank(), "reduce");
  const Shape kept = reduced_shape(shape, axes, true);
  Shape strides = contiguous_strides(kept);
  for (auto axis : axes) strides[static_cast<int>(axis)] = 0;
  return strides;
}

enum class Reduction { sum, mean, max };

template <class V>
V smallest() {
  return std::is_floating_point_v<V> ? -std::numeric_limits<V>::infinity() : std::numeric_limits<V>::min();
}
double plus(double a, double b) { return a + b; }
std::int64_t plus(std::int64_t a, std::int64_t b) {  // wraps
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}

// Accumulates in V in scratch, then stores.
template <class V>
std::unique_ptr<Plan> plan_in(const PlanRequest& request, Reduction reduction) {
  const ArgDesc in = request.in[0], out = request.out[0];
  const std::array<Shape, 2> strides{in.strides, spread_strides(in.shape, request.attrs)};
  const std::int64_t n = out.shape.numel(), terms = n > 0 ? in.shape.numel() / n : 0;
  return make_plan(static_cast<std::size_t>(n) * sizeof(V), [=](const Launch& launch) {
    auto* total = static_cast<V*>(launch.scratch);
    const V first = reduction == Reduction::max ? smallest<V>() : V{0};
    std::fill_n(total, n, first);
    for_each_offset(in.shape, strides, [&](const std::array<std::int64_t, 2>& at) {
      const V x = read<V>(in.dtype, launch.in[0], at[0]);
      V& slot = total[at[1]];
      if (reduction != Reduction::max)
        slot = plus(slot, x);
      else if (x > slot || x != x)
        slot = x;
    });
    for (std::int64_t i = 0; i < n; ++i) {
      write<V>(out.dtype, launch.out[0], i, reduction == Reduction::mean ? total[i] / static_cast<V>(terms) : total[i]);
    }
  });
}

auto planner(Reduction reduction) {
  return [reduction](const PlanRequest& request) {
    return is_float(request.in[0].dtype) ? plan_in<double>(request, reduction)
                                         : plan_in<std::int64_t>(request, reduction);
  };
}

// The first element that reaches the maximum gets dy. A byte of scratch an output says whether it was given away.
std::unique_ptr<Plan> plan_max_backward(const PlanRequest& request) {
  const ArgDesc x = request.in[1];
  const std::array<Shape, 2> strides{x.strides, spread_strides(x.shape, request.attrs)};
  const DType dtype = x.dtype;
  const auto n = request.in[0].shape.numel();
  return make_plan(static_cast<std::size_t>(n), [=](const Launch& launch) {
    auto* given = static_cast<bool*>(launch.scratch);
    std::fill_n(given, n, false);
    for_each_offset(x.shape, strides, [&](const std::array<std::int64_t, 2>& at) {
      const double value = read<double>(dtype, launch.in[1], at[0]), largest = read<double>(dtype, launch.in[2], at[1]);
      const bool wins = (value >= largest || value != value) && !given[at[1]];
      given[at[1]] |= wins;
      write<double>(dtype, launch.out[0], at[0], wins ? read<double>(dtype, launch.in[0], at[1]) : 0.0);
    });
  });
}

}  // namespace

void register_reference_reduce(KernelTable& table) {
  table.add("sum", DeviceKind::cpu, reference::kernel(Accepts::strided, planner(Reduction::sum)));
  table.add("mean", DeviceKind::cpu, reference::kernel(Accepts::strided, planner(Reduction::mean)));
  table.add("max", DeviceKind::cpu, reference::kernel(Accepts::strided, planner(Reduction::max)));
  table.add("max_backward", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_max_backward));
}

}  // namespace starling
