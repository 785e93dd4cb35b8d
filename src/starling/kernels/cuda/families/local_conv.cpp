#include "starling/ops/api/local_conv.h"

#include <limits>

#include "starling/kernels/cuda/device/local_conv.h"
#include "starling/kernels/cuda/plain_local_conv.h"
#include "starling/kernels/cuda/stream.h"
#include "starling/kernels/kernel_table.h"
#include "starling/ops/def/conv_geometry.h"

namespace starling::kernels {
namespace {

// Sizes for device code; nullopt where it counts with less.
template <class A>
std::optional<device::LocalConv> device_conv(const A& a, const Shape& x, const Shape& w) {
  const Pair counts = window_counts(x, {a.kernel, a.stride, a.padding, a.dilation}, "local_conv2d");
  constexpr std::int64_t kMost = std::numeric_limits<int>::max() / 2;
  for (const std::int64_t size :
       {x[0], x[1] * x[2] * x[3], w[0] * w[1], w[2], a.kernel[0] * a.dilation[0], a.kernel[1] * a.dilation[1],
        counts[0] * a.stride[0], counts[1] * a.stride[1], a.padding[0], a.padding[1]}) {
    if (size > kMost) return std::nullopt;
  }
  const auto number = [](std::int64_t value) { return static_cast<int>(value); };
  const device::LocalConv made{number(x[0]),         number(x[1]),          number(x[2]),         number(x[3]),
                               number(w[1]),         number(counts[0]),     number(counts[1]),    number(a.kernel[0]),
                               number(a.kernel[1]),  number(a.stride[0]),   number(a.stride[1]),  number(a.padding[0]),
                               number(a.padding[1]), number(a.dilation[0]), number(a.dilation[1])};
  return device::local_conv_fits(made) ? std::optional(made) : std::nullopt;
}

// Plan of launch(conv, first operand, second, …): nothing to sum gives zeros.
template <class A, class F>
std::unique_ptr<Plan> plan_local(const PlanRequest& request, const Shape& x, const Shape& w, F launch) {
  if (!cuda::all_f32(request.in)) return nullptr;
  if (request.out[0].shape.numel() == 0) return make_plan([](const Launch&) {});
  const auto conv = device_conv(request.attrs.as<A>(), x, w);
  if (!conv) return nullptr;
  if (conv->n == 0 || conv->positions() == 0 || conv->out == 0 || conv->taps() == 0) {
    return make_plan([bytes = static_cast<std::size_t>(request.out[0].shape.numel()) * sizeof(float)](const Launch& l) {
      check_cuda(cudaMemsetAsync(l.out[0], 0, bytes, cuda::stream_of(l)), "clearing a result");
    });
  }
  check_cuda(device::load_local_conv(), "loading a kernel");
  return make_plan(device::local_conv_scratch(*conv),
                   [=, conv = *conv](const Launch& l) { check_cuda(launch(conv, l), "launching a kernel"); });
}

using cuda::input;
using cuda::output;
using cuda::stream_of;

std::unique_ptr<Plan> plan_forward(const PlanRequest& r) {
  return plan_local<op::LocalConv2dAttrs>(
      r, r.in[0].shape, r.in[1].shape, [biased = r.in.size() == 3](const device::LocalConv& conv, const Launch& l) {
        return device::launch_local_conv(conv, input<float>(l, 0), input<float>(l, 1),
                                         biased ? input<float>(l, 2) : nullptr, output<float>(l), l.scratch,
                                         stream_of(l));
      });
}

std::unique_ptr<Plan> plan_backward_input(const PlanRequest& r) {
  return plan_local<op::LocalConv2dGradAttrs>(
      r, r.out[0].shape, r.in[1].shape, [](const device::LocalConv& conv, const Launch& l) {
        return device::launch_local_conv_input(conv, input<float>(l, 0), input<float>(l, 1), output<float>(l),
                                               l.scratch, stream_of(l));
      });
}

std::unique_ptr<Plan> plan_backward_weight(const PlanRequest& r) {
  return plan_local<op::LocalConv2dGradAttrs>(
      r, r.in[1].shape, r.out[0].shape, [](const device::LocalConv& conv, const Launch& l) {
        return device::launch_local_conv_weight(conv, input<float>(l, 0), input<float>(l, 1), output<float>(l),
                                                l.scratch, stream_of(l));
      });
}

}  // namespace

void register_cuda_local_conv(KernelTable& table) {
  table.add("local_conv2d", DeviceKind::cuda, {"positions", Accepts::contiguous, plan_forward});
  table.add("local_conv2d", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, cuda::plan_plain_local_conv});
  table.add("local_conv2d_backward_input", DeviceKind::cuda, {"positions", Accepts::contiguous, plan_backward_input});
  table.add("local_conv2d_backward_weight", DeviceKind::cuda, {"positions", Accepts::contiguous, plan_backward_weight});
}

}  // namespace starling::kernels
