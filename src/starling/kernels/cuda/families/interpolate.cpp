#include "starling/ops/api/interpolate.h"

#include "starling/kernels/cuda/code_names.h"
#include "starling/kernels/cuda/stages.h"

namespace starling::kernels {
namespace {

// Pixels that a pixel of the result mixes, as op::pixel_mixes: `low` and `high` do not decrease from pixel to pixel.
constexpr const char* kMixes = R"(
struct Mix { long long low, high; double weight; };
static __device__ Mix mix_of(long long i, long long in, long long out, double scale) {
  const double last = (double)(in - 1);
  double distance = scale > 0 ? 1 / scale : (double)in / (double)out;
  if (CORNERS) distance = out > 1 ? last / (double)(out - 1) : 0;
  if (NEAREST) {
    const double place = floor((double)i * distance);
    const long long at = scale > 0 ? (long long)(place < last ? place : last) : i * in / out;
    return {at, at, 0};
  }
  double at = CORNERS ? (double)i * distance : ((double)i + 0.5) * distance - 0.5;
  at = at < 0 ? 0 : at > last ? last : at;
  const long long low = (long long)at;
  return {low, low + 1 < in ? low + 1 : in - 1, at - (double)low};
}
static __device__ long long first_with(long long pixel, long long in, long long out, double scale) {
  long long low = 0, high = out;
  while (low < high) {
    const long long middle = (low + high) / 2;
    if (mix_of(middle, in, out, scale).high < pixel) low = middle + 1; else high = middle;
  }
  return low;
}
static __device__ double share(const Mix& m, long long pixel) {
  return (m.low == pixel ? 1 - m.weight : 0) + (m.high == pixel ? m.weight : 0);
}
)";

template <class A>
cuda::CodeNames names_of(const Shape& x, const Shape& y, const A& a) {
  cuda::CodeNames names;
  names.number("H", x[2]).number("W", x[3]).number("OH", y[2]).number("OW", y[3]);
  names.real("SCALE_H", a.scale_h).real("SCALE_W", a.scale_w);
  names.number("CORNERS", a.align_corners).number("NEAREST", a.mode.str() == "nearest");
  return names.code(kMixes);
}

constexpr const char* kForward = R"(
  const long long plane = i / (OW * OH), row = i / OW % OH, column = i % OW;
  const Mix r = mix_of(row, H, OH, SCALE_H), c = mix_of(column, W, OW, SCALE_W);
  const double rows[2] = {1 - r.weight, r.weight}, columns[2] = {1 - c.weight, c.weight};
  double sum = 0;
  for (int p = 0; p < 2; ++p) {
    for (int q = 0; q < 2; ++q) {
      const double weight = rows[p] * columns[q];
      if (weight != 0) sum += weight * (double)a0[(plane * H + (p ? r.high : r.low)) * W + (q ? c.high : c.low)];
    }
  }
  o0[i] = sum;
)";

// Every pixel of x gathers what mixes it, in their order.
constexpr const char* kBackward = R"(
  const long long plane = i / (W * H), row = i / W % H, column = i % W;
  const long long first = first_with(column, W, OW, SCALE_W);
  double sum = 0;
  for (long long p = first_with(row, H, OH, SCALE_H); p < OH; ++p) {
    const Mix r = mix_of(p, H, OH, SCALE_H);
    if (r.low > row) break;
    const double by = share(r, row);
    if (by == 0) continue;
    for (long long q = first; q < OW; ++q) {
      const Mix c = mix_of(q, W, OW, SCALE_W);
      if (c.low > column) break;
      const double weight = by * share(c, column);
      if (weight != 0) sum += weight * (double)a0[(plane * OH + p) * OW + q];
    }
  }
  o0[i] = sum;
)";

std::unique_ptr<Plan> plan_by(const PlanRequest& r, const cuda::CodeNames& names, const char* body) {
  const char* type = cuda::c_type(r.in[0].dtype);
  return cuda::plan_code({{r.out[0].shape.numel()}, {type}, {type}, body, names.text()});
}

std::unique_ptr<Plan> plan_forward(const PlanRequest& r) {
  if (!cuda::is_plain_float(r.in[0].dtype)) return nullptr;
  return plan_by(r, names_of(r.in[0].shape, r.out[0].shape, r.attrs.as<op::InterpolateAttrs>()), kForward);
}

std::unique_ptr<Plan> plan_backward(const PlanRequest& r) {
  if (!cuda::is_plain_float(r.in[0].dtype)) return nullptr;
  return plan_by(r, names_of(r.out[0].shape, r.in[0].shape, r.attrs.as<op::InterpolateGradAttrs>()), kBackward);
}

}  // namespace

void register_cuda_interpolate(KernelTable& table) {
  table.add("interpolate", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_forward});
  table.add("interpolate_backward", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_backward});
}

}  // namespace starling::kernels
