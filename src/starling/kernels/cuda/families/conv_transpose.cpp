#include "starling/ops/api/conv_transpose.h"

#include "starling/kernels/cuda/conv_plans.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/attrs/conv_transpose.h"

namespace starling::kernels {
namespace {

using cuda::input;

// Transposed convolution: the gradient of the input of the convolution from the result y to the operand x.
template <class A>
bool transpose_sizes(const PlanRequest& request, device::Conv& conv) {
  return cuda::device_conv(
      conv_geometry(request.out[0].shape, request.in[1].shape, request.attrs.as<A>(), request.op.name.c_str()), conv);
}

template <class A>
std::unique_ptr<Plan> plan_cudnn_transpose(const PlanRequest& request) {
  device::Conv conv;
  if (!transpose_sizes<A>(request, conv) || !request.out[0].contiguous()) return nullptr;
  if (request.in.size() == 3 && request.in[2].dtype != request.in[0].dtype) return nullptr;
  return cuda::plan_cudnn(cuda::ConvPass::input, conv, request,
                          cuda::plan_bias_epilogue(request, request.in.size() == 3, device::Activation::none));
}

template <class A>
std::unique_ptr<Plan> plan_direct_transpose(const PlanRequest& request) {
  device::Conv conv;
  if (!cuda::all_f32(request.in) || !cuda::all_f32(request.out) || !transpose_sizes<A>(request, conv)) return nullptr;
  if (request.out[0].shape.numel() == 0) return cuda::plan_nothing();
  check_cuda(device::load_conv(), "loading a kernel");
  return make_plan([conv, biased = request.in.size() == 3](const Launch& launch) {
    check_cuda(device::launch_conv_input(conv, input<float>(launch, 0), input<float>(launch, 1),
                                         biased ? input<float>(launch, 2) : nullptr, cuda::output<float>(launch, 0),
                                         cuda::stream_of(launch)),
               "launching a convolution");
  });
}

template <class A>
void add(KernelTable& table, const char* op) {
  table.add(op, DeviceKind::cuda, {"cudnn", Accepts::contiguous, plan_cudnn_transpose<A>});
  table.add(op, DeviceKind::cuda, {"direct", Accepts::contiguous, plan_direct_transpose<A>});
}

}  // namespace

void register_cuda_conv_transpose(KernelTable& table) {
  add<op::ConvTranspose1dAttrs>(table, "conv_transpose1d");
  add<op::ConvTranspose2dAttrs>(table, "conv_transpose2d");
  add<op::ConvTranspose3dAttrs>(table, "conv_transpose3d");
}

}  // namespace starling::kernels
