#include "starling/ops/def/attrs/transfer.h"

#include "starling/kernels/cuda/stages.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

// A thread that waits by the device's clock, in nanoseconds, then the copy.
std::unique_ptr<Plan> plan_delay(const PlanRequest& request) {
  const std::string type = cuda::moved_type(request.in[0].dtype);
  const auto time = static_cast<std::int64_t>(request.attrs.as<op::DelayAttrs>().milliseconds * 1e6);
  const std::string wait = fmt::format(
      "  unsigned long long begun, now;\n  asm volatile(\"mov.u64 %0, %globaltimer;\" : \"=l\"(begun));\n  do {{\n"
      "    __nanosleep(1000);\n    asm volatile(\"mov.u64 %0, %globaltimer;\" : \"=l\"(now));\n"
      "  }} while ((long long)(now - begun) < {}ll);\n",
      time);
  return cuda::plan_stages({cuda::code_stage({{time > 0 ? 1 : 0}, {}, {}, wait, {}}, {}),
                            cuda::code_stage({{request.in[0].shape.numel()}, {type}, {type}, "  o0[i] = a0[i];", {}},
                                             cuda::plain_pointers(1, 1))});
}

}  // namespace

void register_cuda_transfer(KernelTable& table) {
  table.add("delay", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_delay});
}

}  // namespace starling::kernels
