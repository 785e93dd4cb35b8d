#include "starling/ops/api/messages.h"

#include <cstring>

#include "starling/base/error.h"
#include "starling/kernels/kernel_table.h"

// Messages of a single rank: nobody receives, and a receive gives zeros.
namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_message(const PlanRequest& request) {
  const std::size_t bytes = static_cast<std::size_t>(request.out[0].shape.numel()) * size_of(request.out[0].dtype);
  return make_plan([bytes](const Launch& launch) {
    check(launch.context.comm == nullptr,
          "[messages] expected the kernel of the communicator, got the one for a single rank");
    if (bytes > 0) std::memset(launch.out[0], 0, bytes);
  });
}

}  // namespace

void register_reference_messages(KernelTable& table) {
  for (const char* op : {"send_to", "recv_from"})
    table.add(op, DeviceKind::cpu, {"reference", Accepts::contiguous, plan_message});
}

}  // namespace starling::kernels
