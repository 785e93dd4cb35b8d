#include "starling/ops/api/messages.h"

#include "starling/base/bytes.h"
#include "starling/base/error.h"
#include "starling/kernels/kernel_table.h"

// Messages of a single rank: nobody receives, and a receive gives zeros.
namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_message(const PlanRequest& request) {
  const std::size_t bytes = bytes_of(request.out[0]);
  return make_plan([bytes](const Launch& launch) {
    check(launch.context.comm == nullptr,
          "[messages] expected the kernel of the communicator, got the one for a single rank");
    zero_bytes(launch.out[0], bytes);
  });
}

}  // namespace

void register_reference_messages(KernelTable& table) {
  for (const char* op : {"send_to", "recv_from"})
    table.add(op, DeviceKind::cpu, {"reference", Accepts::contiguous, plan_message});
}

}  // namespace starling::kernels
