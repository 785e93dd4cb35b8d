#include "starling/ops/api/triangular.h"

#include <algorithm>
#include <cstring>

#include "starling/base/parallel.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/attrs/triangular.h"

namespace starling::kernels {
namespace {

// Triangle: each row is a copy up to a column and zeros from there on, or the other way round.
std::unique_ptr<Plan> plan_triangle(const PlanRequest& request, bool lower) {
  const Shape& shape = request.in[0].shape;
  const std::int64_t rows = shape[shape.rank() - 2], cols = shape.back(), n = shape.numel();
  // Clamped: beyond the matrix all diagonals are alike, and sums cannot overflow.
  const std::int64_t diagonal = std::clamp(request.attrs.as<op::TriangularAttrs>().diagonal, -rows - 1, cols + 1);
  const std::size_t size = size_of(request.in[0].dtype);
  return make_plan([=](const Launch& launch) {
    if (n == 0) return;
    const auto* from = static_cast<const std::byte*>(launch.in[0]);
    auto* to = static_cast<std::byte*>(launch.out[0]);
    parallel_for(n / cols, 65536 / cols + 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t r = begin; r < end; ++r) {
        const std::int64_t first = r % rows + diagonal;  // column of the diagonal
        const auto cut = static_cast<std::size_t>(std::clamp<std::int64_t>(lower ? first + 1 : first, 0, cols)) * size;
        const std::size_t line = static_cast<std::size_t>(cols) * size, at = static_cast<std::size_t>(r) * line;
        if (lower) {
          if (to != from) std::memcpy(to + at, from + at, cut);
          std::memset(to + at + cut, 0, line - cut);
        } else {
          std::memset(to + at, 0, cut);
          if (to != from) std::memcpy(to + at + cut, from + at + cut, line - cut);
        }
      }
    });
  });
}

}  // namespace

void register_cpu_triangular(KernelTable& table) {
  table.add("tril", DeviceKind::cpu,
            {"rows", Accepts::contiguous, [](const PlanRequest& r) { return plan_triangle(r, true); }});
  table.add("triu", DeviceKind::cpu,
            {"rows", Accepts::contiguous, [](const PlanRequest& r) { return plan_triangle(r, false); }});
}

}  // namespace starling::kernels
