#include <algorithm>
#include <cmath>
#include <numeric>

#include "starling/base/error.h"
#include "starling/ops/api/vision.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/costs.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/def/rules.h"

namespace starling {

Tensor nms(const Tensor& boxes, const Tensor& scores, double iou_threshold) {
  return apply1(named_op<"nms">(), {boxes, scores}, op::NmsAttrs{iou_threshold});
}

namespace {

double area(const double* box) { return (box[2] - box[0]) * (box[3] - box[1]); }

double overlap(const double* a, const double* b) {
  const double w = std::min(a[2], b[2]) - std::max(a[0], b[0]), h = std::min(a[3], b[3]) - std::max(a[1], b[1]);
  const double both = std::max(w, 0.0) * std::max(h, 0.0);
  return both / (area(a) + area(b) - both);
}

Types infer_nms(const InferCall& call) {
  rules::expect_float(call);
  rules::expect_same_dtype(call);
  const Shape& boxes = call.in[0].shape;
  check(boxes.rank() == 2 && boxes[1] == 4, "[nms] expected boxes [n, 4], got {}", to_string(boxes));
  check(call.in[1].shape == Shape{boxes[0]}, "[nms] expected scores [{}], got {}", boxes[0],
        to_string(call.in[1].shape));
  const double threshold = call.attrs.as<op::NmsAttrs>().iou_threshold;
  check(threshold >= 0 && threshold <= 1, "[nms] expected an iou_threshold in [0, 1], got {}", threshold);
  return {TensorType{DType::i64, {boxes[0]}}};
}

}  // namespace

std::vector<std::int64_t> op::nms_kept(std::span<const double> boxes, std::span<const double> scores,
                                       double iou_threshold) {
  std::vector<std::int64_t> order(scores.size()), kept;
  std::iota(order.begin(), order.end(), 0);
  const auto score = [&](std::int64_t i) {
    const double s = scores[static_cast<std::size_t>(i)];
    return std::isnan(s) ? -HUGE_VAL : s;
  };
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) { return score(a) > score(b); });
  for (std::int64_t i : order) {
    const auto hidden = [&](std::int64_t by) {
      return overlap(boxes.data() + 4 * by, boxes.data() + 4 * i) > iou_threshold;
    };
    if (std::none_of(kept.begin(), kept.end(), hidden)) kept.push_back(i);
  }
  return kept;
}

void register_ops_nms(OpRegistry& ops) {
  const auto one = [](std::int64_t n, double threshold, double high = 4) {
    return OpCase{{{.shape = {n, 4}, .low = 0, .high = high}, {.shape = {n}, .distinct = true}},
                  op::NmsAttrs{threshold}};
  };
  ops.add({.name = "nms",
           .doc = "Indices of boxes that overlap none of higher score by more than a threshold.",
           .inputs = {"boxes", "scores"},
           .outputs = {"kept"},
           .attrs = &attr_type<op::NmsAttrs>(),
           .infer = infer_nms,
           .cases =
               [one] {
                 return std::vector<OpCase>{one(6, 0.5), one(20, 0.1), one(20, 0.3), one(1, 0.5),
                                            one(0, 0.5), one(40, 0),   one(30, 1),   one(30, 0.7, 2)};
               },
           .measure =
               [](std::span<const Tensor> in, const Attrs& attrs) {
                 const auto kept =
                     op::nms_kept(in[0].to_vector(), in[1].to_vector(), attrs.as<op::NmsAttrs>().iou_threshold);
                 return Types{TensorType{DType::i64, {static_cast<std::int64_t>(kept.size())}}};
               },
           .plain = true,
           .cost = costs::each(1),
           .precision = Width::wide});
}

}  // namespace starling
