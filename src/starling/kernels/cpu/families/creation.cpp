#include "starling/ops/api/creation.h"

#include <algorithm>

#include "starling/base/parallel.h"
#include "starling/kernels/cpu/simd/cast.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/attrs/creation.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_cast(const PlanRequest& request) {
  const auto n = request.in[0].shape.numel();
  return make_plan([n, from = request.in[0].dtype, to = request.out[0].dtype](const Launch& launch) {
    cast_array(from, launch.in[0], to, launch.out[0], n);
  });
}

std::unique_ptr<Plan> plan_full(const PlanRequest& request) {
  const auto& attrs = request.attrs.as<op::FullAttrs>();
  const auto n = attrs.shape.numel();
  return dispatch(attrs.dtype, [&]<class T>() -> std::unique_ptr<Plan> {
    T value{};
    cast_array(&attrs.value, &value, 1);
    return make_plan([=](const Launch& launch) {
      parallel_for(n, 262144 / static_cast<std::int64_t>(sizeof(T)), [&](std::int64_t begin, std::int64_t end) {
        std::fill(static_cast<T*>(launch.out[0]) + begin, static_cast<T*>(launch.out[0]) + end, value);
      });
    });
  });
}

}  // namespace

void register_cpu_creation(KernelTable& table) {
  table.add("full", DeviceKind::cpu, {"fill", Accepts::contiguous, plan_full});
  table.add("cast", DeviceKind::cpu, {"simd", Accepts::contiguous, plan_cast});
}

}  // namespace starling::kernels
