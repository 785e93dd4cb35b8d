#include "starling/ops/def/attrs/transfer.h"

#include <chrono>
#include <thread>

#include "starling/base/bytes.h"
#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_delay(const PlanRequest& request) {
  const std::size_t bytes = bytes_of(request.in[0]);
  const std::chrono::duration<double, std::milli> time(request.attrs.as<op::DelayAttrs>().milliseconds);
  return make_plan([=](const Launch& launch) {
    copy_bytes(launch.out[0], launch.in[0], bytes);
    std::this_thread::sleep_for(time);
  });
}

}  // namespace

void register_reference_transfer(KernelTable& table) {
  table.add("delay", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_delay));
}

}  // namespace starling::kernels
