#include <algorithm>

#include "starling/kernels/cuda/norm_plans.h"
#include "starling/kernels/cuda/stages.h"
#include "starling/kernels/cuda/stream.h"
#include "starling/ops/def/attrs/normalize.h"
#include "starling/ops/def/registry.h"

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

// Makes y again, in scratch, for the kernels above.
std::unique_ptr<Plan> plan_again(const PlanRequest& request) {
  static const OpDef& backward = find_op("batch_norm_relu_backward");
  const ArgDesc& x = request.in[1];
  const ArgDesc operands[] = {request.in[0], x, x, request.in[2], request.in[3], request.in[4]};
  std::shared_ptr<const Plan> slopes = plan_backward({backward, request.attrs, operands, request.out, request.threads});
  if (!slopes || x.shape.numel() == 0)
    return slopes ? make_plan([slopes](const Launch& l) { slopes->run(l); }) : nullptr;
  cuda::ElementCode code{x.shape, std::vector<std::string>(5, "float"), {"float"}, {}, {}};
  code.body = fmt::format("  o0[i] = (a0[i] - a1[x1]) * (a3[x1] / sqrtf(a2[x1] + (float){})) + a4[x1];",
                          cuda::literal(request.attrs.as<op::EpsAttrs>().eps));
  const std::shared_ptr<const Plan> again = cuda::plan_code(code);
  const std::size_t first = (slopes->scratch_bytes + 255) / 256 * 256;
  return make_plan(first + bytes_of(x), [=](const Launch& launch) {
    void* y = static_cast<std::byte*>(launch.scratch) + first;
    again->run({launch.in + 1, &y, nullptr, launch.context});
    void* in[] = {launch.in[0], y, launch.in[1], launch.in[2], launch.in[3], launch.in[4]};
    slopes->run({in, launch.out, launch.scratch, launch.context});
  });
}

std::unique_ptr<Plan> plan_columns_again(const PlanRequest& request) {
  const NormView v = norm_view(request.op, {DType::f32, request.in[1].shape}, request.attrs);
  return cuda::plan_column_norm_backward(request, {.weight = 4, .bias = 5}, v.eps);
}

}  // namespace

void register_cuda_batch_norm_relu(KernelTable& table) {
  cuda::add_storable("batch_norm_relu", cuda::mixed_rows({0, 3}));
  cuda::add_storable("batch_norm_relu_backward", cuda::mixed_rows({0, 1, 2}));
  table.add("batch_norm_relu", DeviceKind::cuda, {"mixed", Accepts::strided, plan_columns});
  table.add("batch_norm_relu_backward", DeviceKind::cuda, {"mixed", Accepts::strided, plan_columns_backward});
  cuda::add_storable("batch_norm_positive_backward", cuda::mixed_rows({0, 1}));
  table.add("batch_norm_positive_backward", DeviceKind::cuda, {"mixed", Accepts::strided, plan_columns_again});
  table.add("batch_norm_positive_backward", DeviceKind::cuda, {"again", Accepts::contiguous, plan_again});
  table.add("batch_norm_relu", DeviceKind::cuda, {"norm", Accepts::contiguous, plan_forward});
  table.add("batch_norm_relu_backward", DeviceKind::cuda, {"norm", Accepts::contiguous, plan_backward});
}

}  // namespace starling::kernels
