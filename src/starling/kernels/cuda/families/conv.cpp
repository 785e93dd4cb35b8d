#include "starling/ops/api/conv.h"

#include "starling/kernels/cuda/activation.h"
#include "starling/kernels/cuda/conv_plans.h"
#include "starling/kernels/cuda/storage.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/attrs/conv.h"

namespace starling::kernels {
namespace {

using cuda::ConvPass;
using cuda::input;
using cuda::output;
using cuda::stream_of;
using device::Conv;

// True for what the direct kernels take: dense f32.
bool is_plain(const PlanRequest& request) {
  return cuda::all_f32(request.in) && cuda::all_f32(request.out) && request.out[0].contiguous();
}

template <class A>
bool forward_sizes(const PlanRequest& request, Conv& conv) {
  return cuda::device_conv(
      conv_geometry(request.in[0].shape, request.in[1].shape, request.attrs.as<A>(), request.op.name.c_str()), conv);
}

template <class A>
std::unique_ptr<Plan> plan_cudnn_forward(const PlanRequest& request) {
  Conv conv;
  if (!forward_sizes<A>(request, conv)) return nullptr;
  if (request.in.size() >= 3 && request.in[2].dtype != request.in[0].dtype) return nullptr;
  const device::Activation activation = cuda::activation_of(request.attrs.as<A>().activation);
  if (auto wide = cuda::plan_few_channels(ConvPass::forward, conv, request, activation)) return wide;
  return cuda::plan_forward(conv, request, activation);
}

template <class A>
std::unique_ptr<Plan> plan_direct_forward(const PlanRequest& request) {
  Conv conv;
  if (!is_plain(request) || !forward_sizes<A>(request, conv)) return nullptr;
  if (request.out[0].shape.numel() == 0) return cuda::plan_nothing();
  check_cuda(device::load_conv(), "loading a kernel");
  const device::Activation activation = cuda::activation_of(request.attrs.as<A>().activation);
  // With a residual the rest is done after it.
  const bool whole = request.in.size() <= 3;
  const std::shared_ptr<const Plan> epilogue = whole ? nullptr : cuda::plan_bias_epilogue(request, true, activation);
  return make_plan([conv, epilogue, biased = request.in.size() == 3,
                    activation = whole ? activation : device::Activation::none](const Launch& launch) {
    check_cuda(device::launch_conv_forward(conv, input<float>(launch, 0), input<float>(launch, 1),
                                           biased ? input<float>(launch, 2) : nullptr, activation,
                                           output<float>(launch, 0), stream_of(launch)),
               "launching a convolution");
    if (epilogue) epilogue->run(launch);
  });
}

template <class G, ConvPass pass>
bool backward_sizes(const PlanRequest& request, Conv& conv) {
  const auto& a = request.attrs.as<G>();
  constexpr bool of_input = pass == ConvPass::input;
  const Shape& other = request.in[1].shape;
  return cuda::device_conv(
      conv_geometry(of_input ? a.shape : other, of_input ? other : a.shape, a, request.op.name.c_str()), conv);
}

template <class G, ConvPass pass>
std::unique_ptr<Plan> plan_cudnn_backward(const PlanRequest& request) {
  Conv conv;
  if (!backward_sizes<G, pass>(request, conv)) return nullptr;
  if (auto wide = cuda::plan_few_channels(pass, conv, request, device::Activation::none)) return wide;
  return cuda::plan_cudnn(pass, conv, request);
}

template <class G, ConvPass pass>
std::unique_ptr<Plan> plan_direct_backward(const PlanRequest& request) {
  Conv conv;
  if (!is_plain(request) || !backward_sizes<G, pass>(request, conv)) return nullptr;
  if (request.out[0].shape.numel() == 0) return cuda::plan_nothing();
  check_cuda(device::load_conv(), "loading a kernel");
  return make_plan([conv](const Launch& launch) {
    const float *dy = input<float>(launch, 0), *other = input<float>(launch, 1);
    float* result = output<float>(launch, 0);
    check_cuda(pass == ConvPass::input ? device::launch_conv_input(conv, dy, other, nullptr, result, stream_of(launch))
                                       : device::launch_conv_weight(conv, dy, other, result, stream_of(launch)),
               "launching a convolution");
  });
}

template <class A>
void add_forward(KernelTable& table, const char* op) {
  Storable images;
  if (std::string_view(op).starts_with("conv2d")) {
    images.images_in = numbered({0, 3});
    images.images_out = numbered({0});
    images.prefers_images = true;
  }
  table.add(op, DeviceKind::cuda, {"cudnn", Accepts::strided, plan_cudnn_forward<A>});
  cuda::add_storable(op, std::move(images));
  table.add(op, DeviceKind::cuda, {"direct", Accepts::contiguous, plan_direct_forward<A>});
}

template <class G, ConvPass pass>
void add_backward(KernelTable& table, const char* op) {
  Storable images;
  if (std::string_view(op).starts_with("conv2d")) {
    images.images_in = pass == ConvPass::weight ? numbered({0, 1}) : numbered({0});
    if (pass == ConvPass::input) images.images_out = numbered({0});
    images.prefers_images = pass == ConvPass::input;
  }
  table.add(op, DeviceKind::cuda, {"cudnn", Accepts::strided, plan_cudnn_backward<G, pass>});
  cuda::add_storable(op, std::move(images));
  table.add(op, DeviceKind::cuda, {"direct", Accepts::contiguous, plan_direct_backward<G, pass>});
}

}  // namespace

void register_cuda_conv(KernelTable& table) {
  add_forward<op::Conv1dAttrs>(table, "conv1d");
  add_forward<op::Conv2dAttrs>(table, "conv2d");
  add_forward<op::Conv3dAttrs>(table, "conv3d");
  add_forward<op::Conv2dAttrs>(table, "conv2d_residual");
  add_backward<op::Conv2dGradAttrs, ConvPass::input>(table, "conv2d_backward_input");
  add_backward<op::Conv3dGradAttrs, ConvPass::input>(table, "conv3d_backward_input");
  add_backward<op::Conv2dGradAttrs, ConvPass::weight>(table, "conv2d_backward_weight");
  add_backward<op::Conv3dGradAttrs, ConvPass::weight>(table, "conv3d_backward_weight");
}

}  // namespace starling::kernels
