#include "starling/kernels/cuda/device/rows.h"
#include "starling/kernels/cuda/stream.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

using cuda::input;
using cuda::output;
using cuda::stream_of;

struct Rows {
  long long rows;
  int classes;
};

Rows rows_of(const PlanRequest& request) { return {request.in[0].shape[0], static_cast<int>(request.in[0].shape[1])}; }

bool is_plannable(const PlanRequest& request) {
  return request.in[0].dtype == DType::f32 && request.in[0].shape[1] <= (1 << 30);
}

// Plans zero rows too: the kernel writes a sum of 0.
std::unique_ptr<Plan> plan_cross_entropy(const PlanRequest& request) {
  if (!is_plannable(request)) return nullptr;
  check_cuda(device::load_cross_entropy(), "loading a kernel");
  const Rows r = rows_of(request);
  return make_plan(static_cast<std::size_t>(device::cross_entropy_scratch(r.rows, r.classes)) * sizeof(float),
                   [r](const Launch& launch) {
                     check_cuda(device::launch_cross_entropy(input<float>(launch, 0), input<long long>(launch, 1),
                                                             output<float>(launch, 0), output<float>(launch, 1),
                                                             output<float>(launch, 2), r.rows, r.classes,
                                                             static_cast<float*>(launch.scratch), stream_of(launch)),
                                "launching a kernel");
                   });
}

std::unique_ptr<Plan> plan_cross_entropy_backward(const PlanRequest& request) {
  if (!is_plannable(request) || request.in[3].dtype != DType::f32) return nullptr;
  const Rows r = rows_of(request);
  if (r.rows == 0) return make_plan([](const Launch&) {});
  check_cuda(device::load_cross_entropy_backward(), "loading a kernel");
  return make_plan([r](const Launch& launch) {
    check_cuda(device::launch_cross_entropy_backward(input<float>(launch, 0), input<long long>(launch, 1),
                                                     input<float>(launch, 2), input<float>(launch, 3),
                                                     output<float>(launch, 0), r.rows, r.classes, stream_of(launch)),
               "launching a kernel");
  });
}

}  // namespace

void register_cuda_cross_entropy(KernelTable& table) {
  table.add("cross_entropy_sum", DeviceKind::cuda, {"rows", Accepts::contiguous, plan_cross_entropy});
  table.add("cross_entropy_backward", DeviceKind::cuda, {"rows", Accepts::contiguous, plan_cross_entropy_backward});
}

}  // namespace starling::kernels
