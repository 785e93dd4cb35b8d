#include "starling/ops/api/creation.h"

#include "starling/kernels/cuda/elementwise.h"
#include "starling/ops/def/attrs/creation.h"

namespace starling::kernels {
namespace {

std::unique_ptr<Plan> plan_full(const PlanRequest& request) {
  const auto& attrs = request.attrs.as<op::FullAttrs>();
  return cuda::plan_chain({.shape = attrs.shape,
                           .operands = {},
                           .steps = {{cuda::literal(attrs.value), {}, attrs.dtype, {}}},
                           .outputs = {0}});
}

}  // namespace

void register_cuda_creation(KernelTable& table) {
  table.add("full", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_full});
  table.add("cast", DeviceKind::cuda, {"nvrtc", Accepts::strided, cuda::plan_copy});
  cuda::add_storable("cast", cuda::converts());
}

}  // namespace starling::kernels
