#include "starling/kernels/cuda/code_names.h"
#include "starling/kernels/cuda/stages.h"
#include "starling/ops/api/vision.h"

namespace starling::kernels {
namespace {

// Boxes in pixels, and what a point adds of a pixel, as op::roi_box and op::roi_point. `good` is false for boxes that
// the CPU refuses: they give NaN, and nothing from them goes into gradients.
constexpr const char* kRegions = R"(
struct Box { double left, top, bin_h, bin_w; long long points_h, points_w; bool good; };
static __device__ Box box_of(const float* box) {
  double at[4];
  bool good = true;
  for (int i = 0; i < 4; ++i) {
    at[i] = (double)box[i] * SCALE - (ALIGNED ? 0.5 : 0);
    good = good && fabs(at[i]) < 1e9;
  }
  double w = at[2] - at[0], h = at[3] - at[1];
  if (!ALIGNED) w = w < 1 ? 1 : w, h = h < 1 ? 1 : h;
  Box made = {at[0], at[1], h / OH, w / OW, RATIO, RATIO, good};
  if (RATIO == 0) {
    made.good = good && !(made.bin_h > 4096 || made.bin_w > 4096);
    made.points_h = !made.good || made.bin_h < 0 ? 0 : (long long)ceil(made.bin_h);
    made.points_w = !made.good || made.bin_w < 0 ? 0 : (long long)ceil(made.bin_w);
  }
  return made;
}
static __device__ double points_of(const Box& b) {
  const double points = (double)(b.points_h * b.points_w);
  return points > 1 ? points : 1;
}
struct Line { long long low, high; double weight; bool inside; };
static __device__ Line line_at(double at, long long size) {
  Line l = {0, 0, 0, !(at < -1 || at > (double)size)};
  if (!l.inside) return l;
  const double y = at < 0 ? 0 : at > (double)(size - 1) ? (double)(size - 1) : at;
  l.low = (long long)y;
  l.high = l.low + 1 < size ? l.low + 1 : size - 1;
  l.weight = y - (double)l.low;
  return l;
}
static __device__ double share(const Line& l, long long pixel) {
  if (!l.inside) return 0;
  return (l.low == pixel ? 1 - l.weight : 0) + (l.high == pixel ? l.weight : 0);
}
// True if no point of a bin can mix the pixel; sizes may be negative.
static __device__ bool misses(double first, double bin, long long pixel) {
  const double low = bin < 0 ? first + bin : first, high = bin < 0 ? first : first + bin;
  return low > (double)(pixel + 1) || high < (double)(pixel - 1);
}
static __device__ double point_at(double first, double bin, long long i, long long p, long long points) {
  return first + ((double)i + ((double)p + 0.5) / (double)points) * bin;
}
)";

constexpr const char* kAlign = R"(
  const long long column = i % OW, row = i / OW % OH, channel = i / (OH * OW) % C, k = i / (OH * OW) / C;
  const long long sample = a2[k];
  const Box box = box_of(a1 + 4 * k);
  if (!box.good || sample < 0 || sample >= N) { o0[i] = __longlong_as_double(-1); return; }
  const T* x = a0 + (sample * C + channel) * H * W;
  double sum = 0;
  for (long long p = 0; p < box.points_h; ++p) {
    const Line r = line_at(point_at(box.top, box.bin_h, row, p, box.points_h), H);
    for (long long q = 0; r.inside && q < box.points_w; ++q) {
      const Line c = line_at(point_at(box.left, box.bin_w, column, q, box.points_w), W);
      if (!c.inside) continue;
      sum += (1 - r.weight) * ((1 - c.weight) * x[r.low * W + c.low] + c.weight * x[r.low * W + c.high]) +
             r.weight * ((1 - c.weight) * x[r.high * W + c.low] + c.weight * x[r.high * W + c.high]);
    }
  }
  o0[i] = sum / points_of(box);
)";

// Every pixel gathers from the bins whose points may touch it, box after box, so that sums have one order.
constexpr const char* kBackward = R"(
  const long long column = i % W, row = i / W % H, channel = i / (H * W) % C, sample = i / (H * W) / C;
  double sum = 0;
  for (long long k = 0; k < BOXES; ++k) {
    if (a2[k] != sample) continue;
    const Box box = box_of(a1 + 4 * k);
    if (!box.good) continue;
    for (long long y = 0; y < OH; ++y) {
      if (misses(box.top + y * box.bin_h, box.bin_h, row)) continue;
      double down = 0;
      for (long long p = 0; p < box.points_h; ++p)
        down += share(line_at(point_at(box.top, box.bin_h, y, p, box.points_h), H), row);
      if (down == 0) continue;
      for (long long x = 0; x < OW; ++x) {
        if (misses(box.left + x * box.bin_w, box.bin_w, column)) continue;
        double across = 0;
        for (long long q = 0; q < box.points_w; ++q)
          across += share(line_at(point_at(box.left, box.bin_w, x, q, box.points_w), W), column);
        sum += down * across / points_of(box) * (double)a0[((k * C + channel) * OH + y) * OW + x];
      }
    }
  }
  o0[i] = sum;
)";

template <class A>
std::unique_ptr<Plan> plan_by(const PlanRequest& r, const Shape& x, const Shape& y, const A& a, const char* body) {
  if (!cuda::is_plain_float(r.in[0].dtype)) return nullptr;
  cuda::CodeNames names;
  names.number("N", x[0]).number("C", x[1]).number("H", x[2]).number("W", x[3]);
  names.number("BOXES", y[0]).number("OH", y[2]).number("OW", y[3]).type("T", r.in[0].dtype);
  names.real("SCALE", a.spatial_scale).number("RATIO", a.sampling_ratio).number("ALIGNED", a.aligned).code(kRegions);
  const char* type = cuda::c_type(r.in[0].dtype);
  return cuda::plan_code({{r.out[0].shape.numel()}, {type, "float", "long long"}, {type}, body, names.text()});
}

std::unique_ptr<Plan> plan_align(const PlanRequest& r) {
  return plan_by(r, r.in[0].shape, r.out[0].shape, r.attrs.as<op::RoiAlignAttrs>(), kAlign);
}

std::unique_ptr<Plan> plan_backward(const PlanRequest& r) {
  return plan_by(r, r.out[0].shape, r.in[0].shape, r.attrs.as<op::RoiAlignGradAttrs>(), kBackward);
}

}  // namespace

void register_cuda_roi_align(KernelTable& table) {
  table.add("roi_align", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_align});
  table.add("roi_align_backward", DeviceKind::cuda, {"nvrtc", Accepts::contiguous, plan_backward});
}

}  // namespace starling::kernels
