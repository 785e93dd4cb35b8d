#pragma once

#include <array>
#include <memory>

#include "starling/kernels/cpu/reduce/reduce.h"
#include "starling/kernels/kernel.h"

namespace starling::kernels {

// Neighbouring dimensions that are all kept or all reduced, merged into one; dimensions of size 1 are left out.
struct ReduceGroup {
  std::int64_t size;
  bool reduced;
};
struct ReduceGroups {
  std::array<ReduceGroup, kMaxRank> of{};
  int count = 0;
};
ReduceGroups reduce_groups(const Shape& shape, const Shape& axes);

// Reduction over any axes as passes over one axis each, innermost first; adjacent reduced axes are one pass.
struct ReducePasses {
  std::array<ReduceShape, kMaxRank> shapes{};
  int count = 0;
};
ReducePasses reduce_passes(const Shape& shape, const Shape& axes);

// Plans the passes of a reduction of In to Out, with scratch for intermediate results. first(x, y, shape, last) reduces
// In, later(x, y, shape, last) the result of the pass before; `last` says that y is the final result. A reduction over
// no elements gives `empty`; without any pass `copy(x, y, n)` converts.
template <class In, class Out, class First, class Later, class Copy>
std::unique_ptr<Plan> plan_passes(const PlanRequest& request, const Shape& axes, Out empty, First first, Later later,
                                  Copy copy) {
  const Shape& shape = request.in[0].shape;
  const auto n = shape.numel(), results = request.out[0].shape.numel();
  if (n == 0)
    return make_plan([=](const Launch& launch) { std::fill_n(static_cast<Out*>(launch.out[0]), results, empty); });
  const ReducePasses passes = reduce_passes(shape, axes);
  if (passes.count == 0) {
    return make_plan(
        [=](const Launch& launch) { copy(static_cast<const In*>(launch.in[0]), static_cast<Out*>(launch.out[0]), n); });
  }
  // Intermediate results alternate between two pieces of scratch, the first being the larger.
  const auto given = [&](int p) {
    const ReduceShape& s = passes.shapes[static_cast<std::size_t>(p)];
    return s.outer * s.inner;
  };
  const std::int64_t wide = passes.count > 1 ? given(0) : 0, narrow = passes.count > 2 ? given(1) : 0;
  return make_plan(static_cast<std::size_t>(wide + narrow) * sizeof(Out), [=](const Launch& launch) {
    auto* scratch = static_cast<Out*>(launch.scratch);
    const Out* x = nullptr;
    for (int p = 0; p < passes.count; ++p) {
      const bool last = p == passes.count - 1;
      Out* y = last ? static_cast<Out*>(launch.out[0]) : scratch + (p % 2) * wide;
      const ReduceShape& s = passes.shapes[static_cast<std::size_t>(p)];
      if (p == 0)
        first(static_cast<const In*>(launch.in[0]), y, s, last);
      else
        later(x, y, s, last);
      x = y;
    }
  });
}

}  // namespace starling::kernels
