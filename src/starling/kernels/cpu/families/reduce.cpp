#include "starling/ops/reduce.h"

#include <algorithm>
#include <cstring>

#include "starling/kernels/cpu/simd/reduce.h"
#include "starling/kernels/kernel_table.h"

namespace starling {
namespace {

// A reduction over any axes as passes over one each, the innermost first: axes that lie together are one, and what is
// kept between them decides how many passes there are.
struct Passes {
  std::array<ReduceShape, kMaxRank> shapes{};
  int count = 0;
};

Passes passes_of(const Shape& shape, const Shape& axes) {
  // Groups of neighbours that are all kept or all reduced.
  struct Group {
    std::int64_t size;
    bool reduced;
  };
  std::array<Group, kMaxRank> groups{};
  std::size_t count = 0;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) continue;
    const bool reduced = std::find(axes.begin(), axes.end(), d) != axes.end();
    if (count > 0 && groups[count - 1].reduced == reduced)
      groups[count - 1].size *= shape[d];
    else
      groups[count++] = {shape[d], reduced};
  }
  Passes passes;
  std::int64_t inner = 1;
  for (std::size_t g = count; g-- > 0;) {
    if (!groups[g].reduced) {
      inner *= groups[g].size;
      continue;
    }
    std::int64_t outer = 1;
    for (std::size_t before = 0; before < g; ++before) outer *= groups[before].size;
    passes.shapes[static_cast<std::size_t>(passes.count++)] = {outer, groups[g].size, inner};
  }
  return passes;
}

enum class Reduction { sum, mean, max };

template <class T>
void run_pass(Reduction reduction, const T* x, T* y, const ReduceShape& shape, double scale) {
  if (reduction == Reduction::max)
    reduce_max(x, y, shape);
  else
    reduce_sum(x, y, shape, scale);
}

template <class T>
std::unique_ptr<Plan> plan_as(const PlanRequest& request, Reduction reduction) {
  const Shape& shape = request.in[0].shape;
  const auto n = shape.numel(), results = request.out[0].shape.numel();
  if (n == 0)
    return make_plan([results](const Launch& launch) { std::fill_n(static_cast<T*>(launch.out[0]), results, T{0}); });
  const Passes passes = passes_of(shape, reduced_axes(request.attrs.as<ReduceAttrs>().axes, shape.rank(), "reduce"));
  if (passes.count == 0) {
    return make_plan([n](const Launch& launch) {
      std::memcpy(launch.out[0], launch.in[0], static_cast<std::size_t>(n) * sizeof(T));
    });
  }
  const double scale = reduction == Reduction::mean ? static_cast<double>(results) / static_cast<double>(n) : 1.0;
  if (passes.count == 1) {
    return make_plan([=, only = passes.shapes[0]](const Launch& launch) {
      run_pass(reduction, static_cast<const T*>(launch.in[0]), static_cast<T*>(launch.out[0]), only, scale);
    });
  }
  // What passes give to each other alternates between two pieces of scratch, the first being the larger.
  const auto given = [&](int p) {
    return passes.shapes[static_cast<std::size_t>(p)].outer * passes.shapes[static_cast<std::size_t>(p)].inner;
  };
  const std::int64_t first = given(0), second = passes.count > 2 ? given(1) : 0;
  return make_plan(static_cast<std::size_t>(first + second) * sizeof(T), [=](const Launch& launch) {
    auto* scratch = static_cast<T*>(launch.scratch);
    const auto* x = static_cast<const T*>(launch.in[0]);
    for (int p = 0; p < passes.count; ++p) {
      const bool last = p == passes.count - 1;
      T* y = last ? static_cast<T*>(launch.out[0]) : scratch + (p % 2) * first;
      run_pass(reduction, x, y, passes.shapes[static_cast<std::size_t>(p)], last ? scale : 1.0);
      x = y;
    }
  });
}

auto planner(Reduction reduction) {
  return [reduction](const PlanRequest& request) -> std::unique_ptr<Plan> {
    if (request.in[0].dtype == DType::f32) return plan_as<float>(request, reduction);
    if (request.in[0].dtype == DType::f64) return plan_as<double>(request, reduction);
    return nullptr;
  };
}

}  // namespace

void register_cpu_reduce(KernelTable& table) {
  table.add("sum", DeviceKind::cpu, {"simd", Accepts::contiguous, planner(Reduction::sum)});
  table.add("mean", DeviceKind::cpu, {"simd", Accepts::contiguous, planner(Reduction::mean)});
  table.add("max", DeviceKind::cpu, {"simd", Accepts::contiguous, planner(Reduction::max)});
}

}  // namespace starling
