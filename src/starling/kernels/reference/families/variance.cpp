#include "starling/ops/api/variance.h"

#include <algorithm>
#include <cmath>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/reduce_walk.h"

namespace starling::kernels {
namespace {

struct Variance {
  std::int64_t correction;
  bool root;
  template <class V>
  V operator()(const auto& each) const {
    double total = 0, count = 0, squares = 0;
    each([&](V x) {
      total += x;
      ++count;
    });
    const double mean = total / count;
    each([&](V x) { squares += (x - mean) * (x - mean); });
    const double variance = squares / std::max(count - static_cast<double>(correction), 0.0);
    return root ? std::sqrt(variance) : variance;
  }
};

auto plan_variance(bool root) {
  return [root](const PlanRequest& request) {
    const auto& attrs = request.attrs.as<op::VarAttrs>();
    return reference::plan_reduction_in<double>(request, attrs.axes, Variance{attrs.correction, root});
  };
}

}  // namespace

void register_reference_variance(KernelTable& table) {
  table.add("var", DeviceKind::cpu, reference::kernel(Accepts::strided, plan_variance(false)));
  table.add("std", DeviceKind::cpu, reference::kernel(Accepts::strided, plan_variance(true)));
}

}  // namespace starling::kernels
