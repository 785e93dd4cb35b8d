#include "starling/ops/conv.h"

#include <algorithm>

#include "starling/kernels/cpu/conv_im2col.h"
#include "starling/kernels/cpu/product.h"
#include "starling/kernels/kernel_table.h"

namespace starling {
namespace {

template <class Attributes>
Conv2dShape conv_shape(const Shape& x, const Shape& w, const Attributes& a) {
  Conv2dShape s;
  s.batch = x[0], s.in_channels = x[1], s.in_h = x[2], s.in_w = x[3];
  s.out_channels = w[0], s.kernel_h = w[2], s.kernel_w = w[3];
  s.stride_h = a.stride[0], s.stride_w = a.stride[1];
  s.pad_h = a.padding[0], s.pad_w = a.padding[1];
  s.dilation_h = a.dilation[0], s.dilation_w = a.dilation[1];
  s.groups = a.groups;
  return s;
}

bool has_work(const Conv2dShape& s) { return s.batch > 0 && s.in_channels > 0 && s.out_channels > 0; }

const float* operand(const Launch& launch, std::size_t i) { return static_cast<const float*>(launch.in[i]); }
float* result(const Launch& launch) { return static_cast<float*>(launch.out[0]); }

std::unique_ptr<Plan> plan_zeros(const PlanRequest& request) {
  return make_plan([n = request.out[0].shape.numel()](const Launch& launch) { std::fill_n(result(launch), n, 0.0F); });
}

std::unique_ptr<Plan> plan_forward(const PlanRequest& request) {
  if (request.in[0].dtype != DType::f32) return nullptr;
  const auto& a = request.attrs.as<Conv2dAttrs>();
  const Conv2dShape shape = conv_shape(request.in[0].shape, request.in[1].shape, a);
  if (!has_work(shape)) return request.out[0].shape.numel() == 0 ? plan_zeros(request) : nullptr;
  const GemmActivation activation = gemm_activation(a.activation);
  return make_plan(conv2d_forward_scratch(shape, request.threads),
                   [shape, activation, biased = request.in.size() == 3, threads = request.threads](const Launch& l) {
                     conv2d_forward(shape, operand(l, 0), operand(l, 1), biased ? operand(l, 2) : nullptr, activation,
                                    result(l), l.scratch, threads);
                   });
}

std::unique_ptr<Plan> plan_backward_input(const PlanRequest& request) {
  if (request.in[0].dtype != DType::f32) return nullptr;
  const auto& a = request.attrs.as<Conv2dGradAttrs>();
  const Conv2dShape shape = conv_shape(a.shape, request.in[1].shape, a);
  if (!has_work(shape)) return plan_zeros(request);
  return make_plan(conv2d_backward_data_scratch(shape, request.threads),
                   [shape, threads = request.threads](const Launch& l) {
                     conv2d_backward_data(shape, operand(l, 0), operand(l, 1), result(l), l.scratch, threads);
                   });
}

std::unique_ptr<Plan> plan_backward_weight(const PlanRequest& request) {
  if (request.in[0].dtype != DType::f32) return nullptr;
  const auto& a = request.attrs.as<Conv2dGradAttrs>();
  const Conv2dShape shape = conv_shape(request.in[1].shape, a.shape, a);
  if (!has_work(shape)) return plan_zeros(request);
  return make_plan(
      conv2d_backward_weight_scratch(shape, request.threads), [shape, threads = request.threads](const Launch& l) {
        conv2d_backward_weight(shape, operand(l, 1), operand(l, 0), result(l), nullptr, false, l.scratch, threads);
      });
}

}  // namespace

void register_cpu_conv(KernelTable& table) {
  table.add("conv2d", DeviceKind::cpu, {"im2col", Accepts::contiguous, plan_forward});
  table.add("conv2d_backward_input", DeviceKind::cpu, {"im2col", Accepts::contiguous, plan_backward_input});
  table.add("conv2d_backward_weight", DeviceKind::cpu, {"im2col", Accepts::contiguous, plan_backward_weight});
}

}  // namespace starling
