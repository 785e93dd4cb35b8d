#include "starling/kernels/cuda/device/reduce.h"
#include "starling/kernels/cuda/stream.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

using cuda::input;
using cuda::output;
using cuda::stream_of;

std::unique_ptr<Plan> plan_squared_error(const PlanRequest& request) {
  if (!cuda::all_f32(request.in)) return nullptr;
  check_cuda(device::load_squared_error(), "loading a kernel");
  return make_plan(device::kErrorPieces * sizeof(float), [n = request.in[0].shape.numel()](const Launch& launch) {
    check_cuda(device::launch_squared_error(input<float>(launch, 0), input<float>(launch, 1), output<float>(launch, 0),
                                            n, static_cast<float*>(launch.scratch), stream_of(launch)),
               "launching a kernel");
  });
}

}  // namespace

void register_cuda_loss(KernelTable& table) {
  table.add("squared_error", DeviceKind::cuda, {"reduce", Accepts::contiguous, plan_squared_error});
}

}  // namespace starling::kernels
