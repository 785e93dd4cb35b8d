#include "starling/ops/api/creation.h"

#include <bit>

#include "starling/kernels/cuda/elementwise.h"
#include "starling/ops/def/creation.h"

namespace starling::kernels {
namespace {

// Value by its bits, so that infinities and NaN need no names.
std::string literal(double value) {
  return fmt::format("__longlong_as_double({}ll)", std::bit_cast<std::int64_t>(value));
}

std::unique_ptr<Plan> plan_full(const PlanRequest& request) {
  const auto& attrs = request.attrs.as<op::FullAttrs>();
  return cuda::plan_chain(
      {.shape = attrs.shape, .operands = {}, .steps = {{literal(attrs.value), {}, attrs.dtype}}, .outputs = {0}});
}

}  // namespace

void register_cuda_creation(KernelTable& table) {
  table.add("full", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_full});
  table.add("cast", DeviceKind::cuda, {"nvrtc", Accepts::strided, cuda::plan_copy});
}

}  // namespace starling::kernels
