#include <algorithm>
#include <cmath>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/reduce_walk.h"
#include "starling/ops/api/reduce.h"

namespace starling::kernels {
namespace {

using reference::plan_reduction_in;

struct LogSumExp {
  template <class V>
  V operator()(const auto& each) const {
    double largest = -kInfinity, total = 0;
    each([&](V x) { largest = std::max(largest, x); });
    const double shift = std::isfinite(largest) ? largest : 0.0;
    each([&](V x) { total += std::exp(x - shift); });
    return shift + std::log(total);
  }
};

struct Norm {
  double p;
  template <class V>
  V operator()(const auto& each) const {
    double total = 0, most = 0;
    each([&](V x) { most = std::abs(x) > most || x != x ? std::abs(x) : most; });
    if (std::isinf(p)) return most;
    if (p == 1 || p == 2) {
      each([&](V x) { total += p == 2 ? x * x : std::abs(x); });
      return p == 2 ? std::sqrt(total) : total;
    }
    if (most == 0 || !std::isfinite(most)) return most;
    each([&](V x) { total += std::pow(std::abs(x) / most, p); });  // without overflow
    return most * std::pow(total, 1 / p);
  }
};

}  // namespace

void register_reference_norm(KernelTable& table) {
  const auto add = [&](const char* op, auto plan) {
    table.add(op, DeviceKind::cpu, reference::kernel(Accepts::strided, plan));
  };
  add("logsumexp", [](const PlanRequest& request) {
    return plan_reduction_in<double>(request, request.attrs.as<op::ReduceAttrs>().axes, LogSumExp{});
  });
  add("norm", [](const PlanRequest& request) {
    const auto& attrs = request.attrs.as<op::NormAttrs>();
    return plan_reduction_in<double>(request, attrs.axes, Norm{attrs.p});
  });
}

}  // namespace starling::kernels
