#include "starling/ops/def/transfer.h"

#include <chrono>
#include <cstring>
#include <thread>

#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_delay(const PlanRequest& request) {
  const std::size_t bytes = static_cast<std::size_t>(request.in[0].shape.numel()) * size_of(request.in[0].dtype);
  const std::chrono::duration<double, std::milli> time(request.attrs.as<op::DelayAttrs>().milliseconds);
  return make_plan([=](const Launch& launch) {
    if (launch.in[0] != launch.out[0] && bytes > 0) std::memcpy(launch.out[0], launch.in[0], bytes);
    std::this_thread::sleep_for(time);
  });
}

}  // namespace

void register_reference_transfer(KernelTable& table) {
  table.add("delay", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_delay));
}

}  // namespace starling::kernels
