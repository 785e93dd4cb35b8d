#include "starling/ops/api/triangular.h"

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/reference/moved.h"
#include "starling/ops/def/attrs/triangular.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_triangle(const PlanRequest& request, bool lower) {
  const auto diagonal = request.attrs.as<op::TriangularAttrs>().diagonal;
  const Shape shape = request.in[0].shape;
  const std::size_t size = size_of(request.in[0].dtype), rank = static_cast<std::size_t>(shape.rank());
  return make_plan([=](const Launch& launch) {
    const reference::Fill zero;
    std::int64_t number = -1;
    reference::move_elements(shape, size, launch.in[0], zero.data(), launch.out[0], [&](const reference::Index& index) {
      ++number;
      const std::int64_t right = index[rank - 1] - index[rank - 2];
      const bool kept = lower ? right <= diagonal : right >= diagonal;
      return kept ? number : -1;
    });
  });
}

}  // namespace

void register_reference_triangular(KernelTable& table) {
  table.add("tril", DeviceKind::cpu,
            reference::kernel(Accepts::contiguous, [](const PlanRequest& r) { return plan_triangle(r, true); }));
  table.add("triu", DeviceKind::cpu,
            reference::kernel(Accepts::contiguous, [](const PlanRequest& r) { return plan_triangle(r, false); }));
}

}  // namespace starling::kernels
