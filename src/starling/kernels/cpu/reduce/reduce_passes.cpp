#include "starling/kernels/cpu/reduce/reduce_passes.h"

#include <algorithm>

#include "starling/ops/api/reduce.h"

namespace starling::kernels {

ReduceGroups reduce_groups(const Shape& shape, const Shape& axes) {
  const Shape reduced_at = op::reduced_axes(axes, shape.rank(), "reduce");
  ReduceGroups groups;
  for (int d = 0; d < shape.rank(); ++d) {
    if (shape[d] == 1) continue;
    const bool reduced = std::find(reduced_at.begin(), reduced_at.end(), d) != reduced_at.end();
    const auto last = static_cast<std::size_t>(groups.count) - 1;
    if (groups.count > 0 && groups.of[last].reduced == reduced)
      groups.of[last].size *= shape[d];
    else
      groups.of[static_cast<std::size_t>(groups.count++)] = {shape[d], reduced};
  }
  return groups;
}

ReducePasses reduce_passes(const Shape& shape, const Shape& axes) {
  const ReduceGroups groups = reduce_groups(shape, axes);
  ReducePasses passes;
  std::int64_t inner = 1;
  for (auto g = static_cast<std::size_t>(groups.count); g-- > 0;) {
    if (!groups.of[g].reduced) {
      inner *= groups.of[g].size;
      continue;
    }
    std::int64_t outer = 1;
    for (std::size_t before = 0; before < g; ++before) outer *= groups.of[before].size;
    passes.shapes[static_cast<std::size_t>(passes.count++)] = {outer, groups.of[g].size, inner};
  }
  return passes;
}

}  // namespace starling::kernels
