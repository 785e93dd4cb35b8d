#include "starling/kernels/cuda/device/rows.h"
#include "starling/kernels/cuda/stream.h"
#include "starling/kernels/kernel_table.h"

namespace starling::kernels {
namespace {

using device::RowFunction;

auto planner(RowFunction function) {
  return [function](const PlanRequest& request) -> std::unique_ptr<Plan> {
    const Shape& shape = request.in[0].shape;
    if (!cuda::all_f32(request.in) || shape.back() > (1 << 30)) return nullptr;
    if (shape.numel() == 0) return make_plan([](const Launch&) {});
    check_cuda(device::load_rows(function), "loading a kernel");
    const bool two = request.in.size() == 2;
    return make_plan([=, rows = shape.numel() / shape.back(),
                      columns = static_cast<int>(shape.back())](const Launch& launch) {
      check_cuda(device::launch_rows_function(function, cuda::input<float>(launch, 0),
                                              two ? cuda::input<float>(launch, 1) : nullptr,
                                              cuda::output<float>(launch, 0), rows, columns, cuda::stream_of(launch)),
                 "launching a kernel");
    });
  };
}

}  // namespace

void register_cuda_softmax(KernelTable& table) {
  table.add("softmax", DeviceKind::cuda, {"rows", Accepts::contiguous, planner(RowFunction::softmax)});
  table.add("log_softmax", DeviceKind::cuda, {"rows", Accepts::contiguous, planner(RowFunction::log_softmax)});
  table.add("softmax_backward", DeviceKind::cuda,
            {"rows", Accepts::contiguous, planner(RowFunction::softmax_backward)});
  table.add("log_softmax_backward", DeviceKind::cuda,
            {"rows", Accepts::contiguous, planner(RowFunction::log_softmax_backward)});
}

}  // namespace starling::kernels
