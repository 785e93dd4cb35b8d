#include "starling/ops/api/views.h"

#include "starling/kernels/cuda/stages.h"
#include "starling/kernels/cuda/stream.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/registry.h"

namespace starling::kernels {
namespace {

// Zeros, then the operand where the op `diagonal` would read it.
std::unique_ptr<Plan> plan_diag_embed(const PlanRequest& request) {
  const ArgDesc &in = request.in[0], &out = request.out[0];
  const auto line = find_op("diagonal").view({out.shape, out.strides, request.attrs});
  const std::size_t bytes = bytes_of(out);
  if (bytes == 0) return make_plan([](const Launch&) {});
  std::shared_ptr<const Plan> copy =
      cuda::plan_chain(cuda::move_chain(in.dtype, in.shape, in.strides, {in.dtype, line->strides, line->offset}));
  return make_plan(copy->scratch_bytes, [bytes, copy](const Launch& launch) {
    check_cuda(cudaMemsetAsync(launch.out[0], 0, bytes, cuda::stream_of(launch)), "clearing a tensor");
    copy->run(launch);
  });
}

}  // namespace

void register_cuda_views(KernelTable& table) {
  table.add("diag_embed", DeviceKind::cuda, {"nvrtc", Accepts::strided, plan_diag_embed});
}

}  // namespace starling::kernels
