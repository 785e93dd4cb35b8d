#include "starling/kernels/kernel_table.h"
#include "starling/kernels/reference/element.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_unbiased(const PlanRequest& request) {
  const std::int64_t channels = request.out[0].shape[0];
  const std::int64_t count = channels > 0 ? request.in[0].shape.numel() / channels : 0;
  const double factor = count > 1 ? static_cast<double>(count) / static_cast<double>(count - 1) : 1;
  const DType dtype = request.out[0].dtype;
  return make_plan([=](const Launch& launch) {
    for (std::int64_t i = 0; i < channels; ++i)
      reference::write(dtype, launch.out[0], i, reference::read<double>(dtype, launch.in[1], i) * factor);
  });
}

}  // namespace

void register_reference_unbiased_variance(KernelTable& table) {
  table.add("unbiased_variance", DeviceKind::cpu, reference::kernel(Accepts::contiguous, plan_unbiased));
}

}  // namespace starling::kernels
