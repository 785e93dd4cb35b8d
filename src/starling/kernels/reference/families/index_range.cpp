#include "starling/ops/def/attrs/index_range.h"

#include "starling/base/error.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_index_range(const PlanRequest& request) {
  const auto a = request.attrs.as<op::IndexRangeAttrs>();
  const std::int64_t n = request.in[0].shape.numel();
  return make_plan([a, n](const Launch& launch) {
    const auto* in = static_cast<const std::int64_t*>(launch.in[0]);
    auto* out = static_cast<std::int64_t*>(launch.out[0]);
    for (std::int64_t i = 0; i < n; ++i) {
      const bool known = (in[i] >= 0 && in[i] < a.size) || (a.ignores && in[i] == a.ignore_index);
      if (!known)
        fail("[{}] expected {} in [0, {}), got {} {} {}", a.who.str(), a.what.str(), a.size, in[i], a.place.str(), i);
      out[i] = in[i];
    }
  });
}

}  // namespace

void register_reference_index_range(KernelTable& table) {
  table.add("index_range", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_index_range));
}

}  // namespace starling::kernels
