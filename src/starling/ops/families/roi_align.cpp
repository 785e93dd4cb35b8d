#include <algorithm>
#include <cmath>

#include "starling/base/error.h"
#include "starling/ops/api/vision.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor roi_align(const Tensor& x, const Tensor& boxes, const Tensor& sample, const op::RoiAlignAttrs& attrs) {
  return apply1(named_op<"roi_align">(), {x, boxes, sample}, attrs);
}

double op::RoiBox::points() const { return static_cast<double>(std::max<std::int64_t>(points_h * points_w, 1)); }

op::RoiBox op::roi_box(const float* box, const Pair& size, double spatial_scale, std::int64_t sampling_ratio,
                       bool aligned, std::int64_t number) {
  double at[4];
  for (int i = 0; i < 4; ++i) {
    at[i] = static_cast<double>(box[i]) * spatial_scale - (aligned ? 0.5 : 0);
    if (!(std::abs(at[i]) < 1e9)) fail("[roi_align] expected boxes of finite size, got {} in box {}", box[i], number);
  }
  double w = at[2] - at[0], h = at[3] - at[1];
  if (!aligned) w = std::max(w, 1.0), h = std::max(h, 1.0);
  op::RoiBox made{.left = at[0], .top = at[1]};
  made.bin_h = h / static_cast<double>(size[0]);
  made.bin_w = w / static_cast<double>(size[1]);
  constexpr double kMost = 4096;
  if (sampling_ratio == 0 && (made.bin_h > kMost || made.bin_w > kMost)) {
    fail("[roi_align] expected bins of at most {} pixels, got {} × {} in box {}", kMost, made.bin_h, made.bin_w,
         number);
  }
  const auto points = [&](double bin) {
    return sampling_ratio > 0 ? sampling_ratio : std::max<std::int64_t>(static_cast<std::int64_t>(std::ceil(bin)), 0);
  };
  made.points_h = points(made.bin_h);
  made.points_w = points(made.bin_w);
  return made;
}

op::RoiPoint op::roi_point(double row, double column, std::int64_t h, std::int64_t w) {
  op::RoiPoint point;
  if (row < -1 || row > static_cast<double>(h) || column < -1 || column > static_cast<double>(w)) return point;
  const double y = std::clamp(row, 0.0, static_cast<double>(h - 1));
  const double x = std::clamp(column, 0.0, static_cast<double>(w - 1));
  const auto top = static_cast<std::int64_t>(y), left = static_cast<std::int64_t>(x);
  const std::int64_t bottom = std::min(top + 1, h - 1), right = std::min(left + 1, w - 1);
  const double down = y - static_cast<double>(top), across = x - static_cast<double>(left);
  return {{top * w + left, top * w + right, bottom * w + left, bottom * w + right},
          {(1 - down) * (1 - across), (1 - down) * across, down * (1 - across), down * across}};
}

namespace {

constexpr std::int64_t kMost = std::int64_t{1} << 31;

void check_boxes(const InferCall& call, const TensorType& boxes, const TensorType& sample) {
  const std::int64_t count = sample.shape.rank() == 1 ? sample.shape[0] : -1;
  check(sample.dtype == DType::i64 && count >= 0, "[{}] expected samples i64 [k], got {}", call.op.name,
        to_string(sample));
  check(boxes.dtype == DType::f32 && boxes.shape == Shape({count, 4}), "[{}] expected boxes f32 [{}, 4], got {}",
        call.op.name, count, to_string(boxes));
}

void check_rule(const InferCall& call, const Shape& x, double scale, std::int64_t ratio) {
  check_size(x, 1, call.op.name.c_str());
  check(x.rank() == 4 && x[2] >= 1 && x[3] >= 1 && x[2] < kMost && x[3] < kMost && x[2] * x[3] < kMost,
        "[{}] expected x [n, c, h, w] with pixels, got {}", call.op.name, to_string(x));
  check(scale > 0 && scale <= 1e9, "[{}] expected a spatial_scale in (0, 1e9], got {}", call.op.name, scale);
  check(ratio >= 0 && ratio <= 1024, "[{}] expected a sampling_ratio in [0, 1024], got {}", call.op.name, ratio);
}

Types infer_align(const InferCall& call) {
  rules::expect_float(call);
  const auto& a = call.attrs.as<op::RoiAlignAttrs>();
  const Shape& x = call.in[0].shape;
  check_rule(call, x, a.spatial_scale, a.sampling_ratio);
  check_boxes(call, call.in[1], call.in[2]);
  check(a.size[0] >= 1 && a.size[1] >= 1 && a.size[0] < kMost && a.size[1] < kMost,
        "[{}] expected sizes in [1, 2^31), got {} × {}", call.op.name, a.size[0], a.size[1]);
  return {TensorType{call.in[0].dtype, {call.in[1].shape[0], x[1], a.size[0], a.size[1]}}};
}

Types infer_backward(const InferCall& call) {
  rules::expect_float(call);
  const auto& a = call.attrs.as<op::RoiAlignGradAttrs>();
  check_rule(call, a.shape, a.spatial_scale, a.sampling_ratio);
  check_boxes(call, call.in[1], call.in[2]);
  const Shape& dy = call.in[0].shape;
  check(dy.rank() == 4 && dy[0] == call.in[1].shape[0] && dy[1] == a.shape[1] && dy[2] >= 1 && dy[3] >= 1,
        "[{}] expected dy [{}, {}, h, w], got {}", call.op.name, call.in[1].shape[0], a.shape[1], to_string(dy));
  return {TensorType{call.in[0].dtype, a.shape}};
}

struct Sample {
  Shape x;
  std::int64_t boxes;
  op::RoiAlignAttrs attrs;
  double low = 0;
  double high = 6;
};
const std::vector<Sample>& samples() {
  static const std::vector<Sample> kSamples = {{{2, 2, 6, 6}, 3, {{2, 2}}},
                                               {{1, 3, 5, 7}, 2, {{3, 2}, 0.5}, 0, 10},
                                               {{3, 1, 6, 6}, 4, {{2, 3}, 1, 2}},
                                               {{2, 2, 6, 6}, 2, {{2, 2}, 1, 0, true}},
                                               {{1, 1, 4, 4}, 3, {{1, 1}, 1, 3, true}, -3, 8},
                                               {{2, 2, 4, 4}, 0, {{2, 2}}},
                                               {{1, 2, 8, 8}, 2, {{4, 4}, 1, 1}, 0, 8},
                                               {{1, 1, 3, 20}, 2, {{1, 5}, 2, 0, false}, 0, 9}};
  return kSamples;
}

CaseInput boxes_of(const Sample& s) {
  return {.shape = {s.boxes, 4}, .low = s.low, .high = s.high, .dtype = DType::f32};
}
CaseInput sample_of(const Sample& s) {
  return {.shape = {s.boxes}, .low = 0, .high = static_cast<double>(s.x[0]) - 0.01, .dtype = DType::i64};
}

}  // namespace

void register_ops_roi_align(OpRegistry& ops) {
  ops.add({.name = "roi_align",
           .doc = "Regions of feature maps in one size, by bilinear values at points of each bin.",
           .inputs = {"x", "boxes", "sample"},
           .attrs = &attr_type<op::RoiAlignAttrs>(),
           .infer = infer_align,
           .gradient =
               [](const GradCall& c) {
                 const auto& a = c.attrs.as<op::RoiAlignAttrs>();
                 return TensorList{
                     apply1(named_op<"roi_align_backward">(), {c.grads[0], c.in[1], c.in[2]},
                            op::RoiAlignGradAttrs{c.in[0].shape(), a.spatial_scale, a.sampling_ratio, a.aligned}),
                     Tensor(), Tensor()};
               },
           .cases =
               [] {
                 std::vector<OpCase> cases;
                 for (const auto& s : samples())
                   cases.push_back({{{.shape = s.x}, boxes_of(s), sample_of(s)}, s.attrs});
                 return cases;
               },
           .saves = kSavesInputs,
           .cost = costs::each(1),
           .precision = Width::wide});
  ops.add({.name = "roi_align_backward",
           .doc = "dy given back to the pixels that made each bin.",
           .inputs = {"dy", "boxes", "sample"},
           .outputs = {"dx"},
           .attrs = &attr_type<op::RoiAlignGradAttrs>(),
           .infer = infer_backward,
           .gradient =
               [](const GradCall& c) {
                 const auto& a = c.attrs.as<op::RoiAlignGradAttrs>();
                 const Shape& dy = c.in[0].shape();
                 return TensorList{roi_align(c.grads[0], c.in[1], c.in[2],
                                             {{dy[2], dy[3]}, a.spatial_scale, a.sampling_ratio, a.aligned}),
                                   Tensor(), Tensor()};
               },
           .cases =
               [] {
                 std::vector<OpCase> cases;
                 for (const auto& s : samples()) {
                   const auto& a = s.attrs;
                   cases.push_back({{{.shape = {s.boxes, s.x[1], a.size[0], a.size[1]}}, boxes_of(s), sample_of(s)},
                                    op::RoiAlignGradAttrs{s.x, a.spatial_scale, a.sampling_ratio, a.aligned}});
                 }
                 return cases;
               },
           .saves = kSavesInputs,
           .cost = costs::each(1),
           .precision = Width::wide});
}

}  // namespace starling
