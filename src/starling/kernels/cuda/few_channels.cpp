#include "starling/kernels/cuda/conv_plans.h"
#include "starling/kernels/cuda/device/fold_stride.h"
#include "starling/kernels/storable.h"

// Convolutions of images with few channels, as pictures have. The library's kernels for tensor cores want a multiple of
// 4 or 8 of them, and waste most of their work on a filter of 7 × 7 with 3: what a window steps over becomes channels,
// so that 7 × 7 × 3 at every second pixel is 4 × 4 × 12 at every pixel of an image half as large. What is not there is
// zero.
namespace starling::cuda {
namespace {

using kernels::ArgDesc;
using kernels::Launch;
using kernels::Plan;

constexpr float kBytesPerMs = 2e9f;
constexpr int kMostChannels = 7, kMostWide = 64;

int number(std::int64_t value) { return static_cast<int>(value); }
std::size_t aligned(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

// Convolution of images with more channels.
struct Form {
  device::Conv conv{};
  int step_rows = 1, step_columns = 1;  // that became channels
  bool folds() const { return step_rows * step_columns > 1; }
};

// Windows that step by 1, over padding that is part of the image.
Form folded(const device::Conv& conv) {
  Form form{conv, conv.stride[1], conv.stride[2]};
  form.conv.c = (conv.c * form.step_rows * form.step_columns + 7) / 8 * 8;
  for (int d : {1, 2}) {
    form.conv.k[d] = (conv.k[d] + conv.stride[d] - 1) / conv.stride[d];
    form.conv.x[d] = conv.y[d] + form.conv.k[d] - 1;
    form.conv.stride[d] = 1;
    form.conv.padding[d] = 0;
  }
  return form;
}

ArgDesc wide_images(const Form& form, DType dtype) {
  const device::Conv& c = form.conv;
  const Shape shape{c.n, c.c, c.x[1], c.x[2]};
  return {dtype, shape, kernels::channels_last_strides(shape)};
}
ArgDesc wide_filters(const Form& form, DType dtype) {
  const device::Conv& c = form.conv;
  const Shape shape{c.o, c.c, c.k[1], c.k[2]};
  return {dtype, shape, kernels::channels_last_strides(shape)};
}

// How an operand [n, c, rows, columns] becomes a wide one.
device::FoldStride fold_of(const ArgDesc& from, const ArgDesc& to, const Form& form) {
  device::FoldStride fold{};
  fold.images = number(from.shape[0]), fold.channels = number(from.shape[1]);
  fold.rows = number(from.shape[2]), fold.columns = number(from.shape[3]);
  for (int d = 0; d < 4; ++d) fold.strides[d] = from.strides[d];
  fold.step_rows = form.step_rows, fold.step_columns = form.step_columns;
  fold.out_rows = number(to.shape[2]), fold.out_columns = number(to.shape[3]), fold.wide = number(to.shape[1]);
  return fold;
}

// Milliseconds of the library's convolution and of the copy of its images before it; infinite without one.
float time_of(ConvPass pass, const Form& form, DType dtype) {
  const auto chosen = cudnn_convolution(pass, form.conv, {dtype, true});
  if (!chosen) return std::numeric_limits<float>::infinity();
  return chosen->milliseconds + static_cast<float>(kernels::bytes_of(wide_images(form, dtype))) * 2 / kBytesPerMs;
}

// The faster of both forms.
Form best_form(ConvPass pass, const device::Conv& conv, DType dtype) {
  const Form as_given{conv}, wide = folded(conv);
  return time_of(pass, wide, dtype) < time_of(pass, as_given, dtype) ? wide : as_given;
}

bool takes(ConvPass pass, const device::Conv& conv, const kernels::PlanRequest& request) {
  const bool forward = pass == ConvPass::forward;
  const ArgDesc& images = request.in[forward ? 0 : 1];
  return pass != ConvPass::input && is_half(images.dtype) && request.in[0].dtype == request.in[1].dtype &&
         request.out[0].dtype == images.dtype && images.shape.rank() == 4 && conv.c <= kMostChannels &&
         conv.groups == 1 && conv.stride[1] * conv.stride[2] > 1 &&
         conv.c * conv.stride[1] * conv.stride[2] <= kMostWide && conv.dilation[1] == 1 && conv.dilation[2] == 1 &&
         has_products(conv) && kernels::is_channels_last(forward ? request.out[0] : request.in[0]);
}

}  // namespace

std::unique_ptr<Plan> plan_few_channels(ConvPass pass, const device::Conv& conv, const kernels::PlanRequest& request,
                                        device::Activation activation) {
  if (!takes(pass, conv, request)) return nullptr;
  const bool forward = pass == ConvPass::forward;
  const std::size_t at = forward ? 0 : 1;  // the images
  const DType dtype = request.in[at].dtype;
  const Form form = best_form(pass, conv, dtype);
  if (!form.folds()) return nullptr;
  check_cuda(device::load_fold_stride(), "loading a kernel");
  const ArgDesc& filters = forward ? request.in[1] : request.out[0];
  const ArgDesc images = wide_images(form, dtype), wide = wide_filters(form, dtype);
  std::vector<ArgDesc> in(request.in.begin(), request.in.end());
  in[at] = images;
  if (forward) in[1] = wide;
  const kernels::PlanRequest inner{request.op, request.attrs, in, forward ? request.out : std::span(&wide, 1),
                                   request.threads};
  const std::shared_ptr<const Plan> plan =
      forward ? plan_forward(form.conv, inner, activation) : plan_cudnn(pass, form.conv, inner);
  if (!plan) return nullptr;
  const std::size_t first = aligned(plan->scratch_bytes), second = first + aligned(kernels::bytes_of(images));
  const std::size_t bytes = second + aligned(kernels::bytes_of(wide)) + kLibraryAlignment;
  device::FoldStride of_images = fold_of(request.in[at], images, form);
  of_images.padding_rows = conv.padding[1], of_images.padding_columns = conv.padding[2];
  const device::FoldStride of_filters = fold_of(filters, wide, form);
  return kernels::make_plan(bytes, [=, operands = in.size()](const Launch& launch) {
    auto* const x = static_cast<std::byte*>(library_aligned(static_cast<std::byte*>(launch.scratch) + first));
    void* const w = x + (second - first);
    check_cuda(device::launch_fold_stride(of_images, launch.in[at], x, stream_of(launch)), "launching a kernel");
    if (forward)
      check_cuda(device::launch_fold_stride(of_filters, launch.in[1], w, stream_of(launch)), "launching a kernel");
    void* given[4] = {};
    for (std::size_t i = 0; i < operands; ++i) given[i] = launch.in[i];
    given[at] = x;
    if (forward) given[1] = w;
    plan->run({given, forward ? launch.out : &w, launch.scratch, launch.context});
    if (!forward)
      check_cuda(device::launch_unfold_stride(of_filters, w, launch.out[0], stream_of(launch)), "launching a kernel");
  });
}

}  // namespace starling::cuda
