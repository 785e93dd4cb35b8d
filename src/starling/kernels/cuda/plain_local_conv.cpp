#include "starling/kernels/cuda/plain_local_conv.h"

#include "starling/kernels/cuda/code_names.h"
#include "starling/kernels/cuda/stages.h"
#include "starling/ops/api/local_conv.h"
#include "starling/ops/def/conv_geometry.h"

namespace starling::cuda {
namespace {

// One thread per element of the result, for f64 and for sizes that local_conv.cpp leaves out. Weights [position, out,
// channel · tap] lie one after another.
constexpr const char* kBody = R"(
  const long long position = i % (OH * OW), out = i / (OH * OW) % OUT, sample = i / (OH * OW) / OUT;
  const long long top = position / OW * SH - PH, left = position % OW * SW - PW;
  const T* weight = a1 + (position * OUT + out) * C * KH * KW;
  const T* x = a0 + sample * C * H * W;
  double sum = BIAS;
  for (long long c = 0; c < C; ++c) {
    for (long long p = 0; p < KH; ++p) {
      const long long row = top + p * DH;
      for (long long q = 0; q < KW; ++q) {
        const long long column = left + q * DW;
        if (row >= 0 && row < H && column >= 0 && column < W)
          sum += (double)x[(c * H + row) * W + column] * (double)weight[(c * KH + p) * KW + q];
      }
    }
  }
  o0[i] = sum;
)";

}  // namespace

std::unique_ptr<kernels::Plan> plan_plain_local_conv(const kernels::PlanRequest& request) {
  if (!cuda::is_plain_float(request.in[0].dtype)) return nullptr;
  const auto& a = request.attrs.as<op::LocalConv2dAttrs>();
  const Shape &x = request.in[0].shape, &y = request.out[0].shape;
  cuda::CodeNames names;
  names.number("C", x[1]).number("H", x[2]).number("W", x[3]);
  names.number("OUT", y[1]).number("OH", y[2]).number("OW", y[3]);
  names.number("KH", a.kernel[0]).number("KW", a.kernel[1]).number("SH", a.stride[0]).number("SW", a.stride[1]);
  names.number("PH", a.padding[0]).number("PW", a.padding[1]).number("DH", a.dilation[0]).number("DW", a.dilation[1]);
  names.type("T", request.in[0].dtype);
  names.expression("BIAS", request.in.size() == 3 ? "(double)a2[i % (OUT * OH * OW)]" : "0");
  const char* type = cuda::c_type(request.in[0].dtype);
  return cuda::plan_code({{y.numel()}, std::vector<std::string>(request.in.size(), type), {type}, kBody, names.text()});
}

}  // namespace starling::cuda
