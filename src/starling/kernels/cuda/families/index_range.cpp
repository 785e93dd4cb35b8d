#include "starling/ops/def/attrs/index_range.h"

#include "starling/kernels/cuda/stages.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

// The indices as they are. Device code cannot throw: whoever reads by an index out of range gives NaN.
std::unique_ptr<Plan> plan_index_range(const PlanRequest& request) {
  return cuda::plan_code({request.in[0].shape, {"long long"}, {"long long"}, "  o0[i] = a0[i];", {}});
}

}  // namespace

void register_cuda_index_range(KernelTable& table) {
  table.add("index_range", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_index_range});
}

}  // namespace starling::kernels
