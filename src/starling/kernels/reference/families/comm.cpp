#include <cstring>

#include "starling/base/error.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"

namespace starling {
namespace {

// The collectives of a world of one; kernels that talk to others come before these.
void expect_alone(const Launch& launch, const char* op) {
  check(launch.context.comm == nullptr, "[{}] expected the kernel of the communicator, got the one for a single rank",
        op);
}

std::unique_ptr<Plan> plan_all_reduce(const PlanRequest& request) {
  const std::size_t bytes = static_cast<std::size_t>(request.in[0].shape.numel()) * size_of(request.in[0].dtype);
  return make_plan([bytes](const Launch& launch) {
    expect_alone(launch, "all_reduce");
    if (launch.in[0] != launch.out[0]) std::memcpy(launch.out[0], launch.in[0], bytes);
  });
}

std::unique_ptr<Plan> plan_ordered_sum(const PlanRequest& request) {
  const auto n = request.in[0].shape.numel();
  const std::size_t shards = request.in.size();
  return reference::for_floats(request.in[0].dtype, [&]<class T>() {
    return make_plan([=](const Launch& launch) {
      expect_alone(launch, "ordered_sum");
      for (std::int64_t i = 0; i < n; ++i) {
        T sum = static_cast<const T*>(launch.in[0])[i];
        for (std::size_t s = 1; s < shards; ++s) sum += static_cast<const T*>(launch.in[s])[i];
        static_cast<T*>(launch.out[0])[i] = sum;
      }
    });
  });
}

}  // namespace

void register_reference_comm(KernelTable& table) {
  table.add("all_reduce", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_all_reduce));
  table.add("ordered_sum", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_ordered_sum));
}

}  // namespace starling
