#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/reduce_walk.h"

namespace starling::kernels {
namespace {

struct ExtremeIndex {
  bool largest;
  template <class V>
  V operator()(const auto& each) const {
    V best = 0;
    std::int64_t at = 0, i = 0;
    each([&](V x) {
      if (i == 0 || reference::beats(largest, x, best)) {
        best = x;
        at = i;
      }
      ++i;
    });
    return static_cast<V>(at);
  }
};

auto planner(bool largest) {
  return [largest](const PlanRequest& request) {
    return reference::plan_reduction(request, request.attrs.as<op::ReduceAttrs>().axes, ExtremeIndex{largest});
  };
}

}  // namespace

void register_reference_arg_reduce(KernelTable& table) {
  table.add("argmax", DeviceKind::cpu, reference::kernel(Accepts::strided, planner(true)));
  table.add("argmin", DeviceKind::cpu, reference::kernel(Accepts::strided, planner(false)));
}

}  // namespace starling::kernels
