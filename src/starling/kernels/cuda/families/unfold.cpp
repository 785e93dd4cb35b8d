#include "starling/ops/api/unfold.h"

#include "starling/kernels/cuda/code_names.h"
#include "starling/kernels/cuda/stages.h"
#include "starling/ops/def/conv_geometry.h"

namespace starling::kernels {
namespace {

// Windows over images [n, c, h, w]: sizes of the image, the kernel and the grid of windows.
template <class A>
cuda::CodeNames windows_over(const Shape& image, const A& a, const char* who) {
  const Pair counts = window_counts(image, {a.kernel, a.stride, a.padding, a.dilation}, who);
  cuda::CodeNames names;
  names.number("H", image[2]).number("W", image[3]).number("OH", counts[0]).number("OW", counts[1]);
  names.number("KH", a.kernel[0]).number("KW", a.kernel[1]).number("SH", a.stride[0]).number("SW", a.stride[1]);
  names.number("PH", a.padding[0]).number("PW", a.padding[1]).number("DH", a.dilation[0]).number("DW", a.dilation[1]);
  return names;
}

constexpr const char* kUnfold = R"(
  const long long window = i % (OH * OW), tap = i / (OH * OW) % (KH * KW), plane = i / (OH * OW) / (KH * KW);
  const long long row = window / OW * SH - PH + tap / KW * DH, column = window % OW * SW - PW + tap % KW * DW;
  o0[i] = row >= 0 && row < H && column >= 0 && column < W ? a0[(plane * H + row) * W + column] : 0;
)";

// Every pixel sums the windows that cover it, tap after tap.
constexpr const char* kFold = R"(
  const long long plane = i / (H * W), row = i / W % H, column = i % W;
  double sum = 0;
  for (long long p = 0; p < KH; ++p) {
    const long long down = row + PH - p * DH;
    if (down < 0 || down % SH != 0 || down / SH >= OH) continue;
    for (long long q = 0; q < KW; ++q) {
      const long long across = column + PW - q * DW;
      if (across < 0 || across % SW != 0 || across / SW >= OW) continue;
      sum += (double)a0[((plane * KH + p) * KW + q) * OH * OW + down / SH * OW + across / SW];
    }
  }
  o0[i] = sum;
)";

std::unique_ptr<Plan> plan_by(const PlanRequest& request, const cuda::CodeNames& names, const char* body) {
  const char* type = cuda::c_type(request.in[0].dtype);
  return cuda::plan_code({{request.out[0].shape.numel()}, {type}, {type}, body, names.text()});
}

std::unique_ptr<Plan> plan_unfold(const PlanRequest& request) {
  if (!cuda::is_plain_float(request.in[0].dtype)) return nullptr;
  return plan_by(request, windows_over(request.in[0].shape, request.attrs.as<op::UnfoldAttrs>(), "unfold"), kUnfold);
}

std::unique_ptr<Plan> plan_fold(const PlanRequest& request) {
  if (!cuda::is_plain_float(request.in[0].dtype)) return nullptr;
  return plan_by(request, windows_over(request.out[0].shape, request.attrs.as<op::FoldAttrs>(), "fold"), kFold);
}

}  // namespace

void register_cuda_unfold(KernelTable& table) {
  table.add("unfold", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_unfold});
  table.add("fold", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_fold});
}

}  // namespace starling::kernels
