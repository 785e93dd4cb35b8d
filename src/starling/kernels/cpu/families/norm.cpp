#include <algorithm>
#include <cmath>

#include "starling/kernels/by_float.h"
#include "starling/kernels/cpu/reduce/reduce_passes.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/api/reduce.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_logsumexp(const PlanRequest& request) {
  return for_floats(request.in[0].dtype, [&]<class T>() {
    const auto pass = [](const T* x, T* y, const ReduceShape& shape, bool) { reduce_logsumexp(x, y, shape); };
    const auto copy = [](const T* x, T* y, std::int64_t count) { std::copy_n(x, count, y); };
    return plan_passes<T, T>(request, request.attrs.as<op::ReduceAttrs>().axes, static_cast<T>(-kInfinity), pass, pass,
                             copy);
  });
}

// A norm of norms is the norm of all elements.
std::unique_ptr<Plan> plan_norm(const PlanRequest& request) {
  const auto& attrs = request.attrs.as<op::NormAttrs>();
  return for_floats(request.in[0].dtype, [&]<class T>() {
    const auto pass = [p = attrs.p](const T* x, T* y, const ReduceShape& shape, bool) { reduce_norm(x, y, shape, p); };
    const auto copy = [](const T* x, T* y, std::int64_t count) {
      for (std::int64_t i = 0; i < count; ++i) y[i] = std::abs(x[i]);
    };
    return plan_passes<T, T>(request, attrs.axes, T{0}, pass, pass, copy);
  });
}

}  // namespace

void register_cpu_norm(KernelTable& table) {
  table.add("logsumexp", DeviceKind::cpu, {"simd", Accepts::contiguous, plan_logsumexp});
  table.add("norm", DeviceKind::cpu, {"simd", Accepts::contiguous, plan_norm});
}

}  // namespace starling::kernels
