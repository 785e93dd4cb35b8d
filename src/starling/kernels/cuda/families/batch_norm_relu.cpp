#include <algorithm>

#include "starling/kernels/cuda/norm_plans.h"
#include "starling/kernels/cuda/stream.h"

namespace starling::kernels {
namespace {

using cuda::input;
using cuda::output;

std::size_t scratch_of(const device::Norm& norm) {
  return static_cast<std::size_t>(norm.stats * norm.pieces) * 2 * sizeof(float);
}

std::unique_ptr<Plan> plan_forward(const PlanRequest& request) {
  device::Norm norm;
  const NormView v = norm_view(request.op, {request.in[0].dtype, request.in[0].shape}, request.attrs);
  if (!cuda::all_f32(request.in) || request.out[0].dtype != DType::f32 || !request.out[0].contiguous() ||
      !cuda::device_norm(v, norm))
    return nullptr;
  if (v.x.numel() == 0) return make_plan([](const Launch&) {});
  check_cuda(device::load_norm(), "loading a kernel");
  return make_plan(scratch_of(norm), [norm, residual = request.in.size() > 3](const Launch& launch) {
    const device::NormForward f{input<float>(launch, 0),
                                input<float>(launch, 1),
                                input<float>(launch, 2),
                                residual ? input<float>(launch, 3) : nullptr,
                                true,
                                output<float>(launch, 0),
                                output<float>(launch, 1),
                                output<float>(launch, 2)};
    check_cuda(device::launch_norm_forward(norm, f, static_cast<float*>(launch.scratch), cuda::stream_of(launch)),
               "launching a kernel");
  });
}

std::unique_ptr<Plan> plan_backward(const PlanRequest& request) {
  device::Norm norm;
  const NormView v = norm_view(request.op, {request.in[2].dtype, request.in[2].shape}, request.attrs);
  if (!cuda::all_f32(request.in) || request.out[0].dtype != DType::f32 || !request.out[0].contiguous() ||
      !cuda::device_norm(v, norm))
    return nullptr;
  if (v.x.numel() == 0) return make_plan([](const Launch&) {});
  check_cuda(device::load_norm(), "loading a kernel");
  return make_plan(scratch_of(norm), [norm](const Launch& launch) {
    const device::NormBackward b{input<float>(launch, 0),  input<float>(launch, 1),  input<float>(launch, 2),
                                 input<float>(launch, 3),  input<float>(launch, 4),  input<float>(launch, 5),
                                 output<float>(launch, 0), output<float>(launch, 1), output<float>(launch, 2)};
    check_cuda(device::launch_norm_backward(norm, b, static_cast<float*>(launch.scratch), cuda::stream_of(launch)),
               "launching a kernel");
  });
}

std::unique_ptr<Plan> plan_columns(const PlanRequest& request) {
  const NormView v = norm_view(request.op, {DType::f32, request.in[0].shape}, request.attrs);
  return cuda::plan_column_norm(
      request, {.weight = 1, .bias = 2, .residual = request.in.size() > 3 ? 3 : -1, .relu = true}, v.eps);
}

std::unique_ptr<Plan> plan_columns_backward(const PlanRequest& request) {
  const NormView v = norm_view(request.op, {DType::f32, request.in[2].shape}, request.attrs);
  return cuda::plan_column_norm_backward(request, {.dy = 0, .y = 1, .x = 2, .mean = 3, .var = 4, .weight = 5}, v.eps);
}

}  // namespace

void register_cuda_batch_norm_relu(KernelTable& table) {
  cuda::add_storable("batch_norm_relu", cuda::mixed_rows({0, 3}));
  cuda::add_storable("batch_norm_relu_backward", cuda::mixed_rows({0, 1, 2}));
  table.add("batch_norm_relu", DeviceKind::cuda, {"mixed", Accepts::strided, plan_columns});
  table.add("batch_norm_relu_backward", DeviceKind::cuda, {"mixed", Accepts::strided, plan_columns_backward});
  table.add("batch_norm_relu", DeviceKind::cuda, {"norm", Accepts::contiguous, plan_forward});
  table.add("batch_norm_relu_backward", DeviceKind::cuda, {"norm", Accepts::contiguous, plan_backward});
}

}  // namespace starling::kernels
