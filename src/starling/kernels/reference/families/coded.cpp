#include "starling/ops/def/attrs/coded.h"

#include "starling/base/bytes.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"
#include "starling/kernels/reference/single_rank.h"

namespace starling::kernels {
namespace {

// Alone nothing is exchanged: sums are the operands, and states stay.
std::unique_ptr<Plan> plan_coded_reduce(const PlanRequest& request) {
  std::vector<std::size_t> bytes;
  for (const auto& in : request.in) bytes.push_back(bytes_of(in));
  return make_plan([bytes](const Launch& launch) {
    reference::expect_alone(launch, "coded_reduce");
    for (std::size_t i = 0; i < bytes.size(); ++i) copy_bytes(launch.out[i], launch.in[i], bytes[i]);
  });
}

}  // namespace

void register_reference_coded(KernelTable& table) {
  table.add("coded_reduce", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_coded_reduce));
}

}  // namespace starling::kernels
