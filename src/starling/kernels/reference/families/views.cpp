#include "starling/ops/api/views.h"

#include <cstring>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/strides.h"
#include "starling/ops/def/registry.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_diag_embed(const PlanRequest& request) {
  const ArgDesc in = request.in[0], out = request.out[0];
  const auto line = find_op("diagonal").view({out.shape, out.strides, request.attrs});
  const std::size_t size = size_of(in.dtype), bytes = static_cast<std::size_t>(out.shape.numel()) * size;
  return make_plan([=, line = *line](const Launch& launch) {
    auto* to = static_cast<std::byte*>(launch.out[0]);
    const auto* from = static_cast<const std::byte*>(launch.in[0]);
    std::memset(to, 0, bytes);
    for_each_offset(in.shape, std::array<Shape, 2>{in.strides, line.strides},
                    [&](const std::array<std::int64_t, 2>& at) {
                      const auto step = static_cast<std::int64_t>(size);
                      std::memcpy(to + (line.offset + at[1]) * step, from + at[0] * step, size);
                    });
  });
}

}  // namespace

void register_reference_views(KernelTable& table) {
  table.add("diag_embed", DeviceKind::cpu, reference::kernel(Accepts::strided, plan_diag_embed));
}

}  // namespace starling::kernels
