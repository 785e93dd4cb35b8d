#pragma once

#include <span>
#include <vector>

#include "starling/ops/def/attrs.h"

namespace starling::op {

struct RoiAlignAttrs {
  Pair size{1, 1};                  // bins along height and width
  double spatial_scale = 1;         // scale from box units to pixels of x
  std::int64_t sampling_ratio = 0;  // sampling points per bin and dimension; 0: its size in pixels, rounded up
  bool aligned = false;             // shifts boxes by half a pixel to the left and top, and allows sizes below 1
  static AttrFields fields() {
    return {field("size", &RoiAlignAttrs::size), field("spatial_scale", &RoiAlignAttrs::spatial_scale),
            field("sampling_ratio", &RoiAlignAttrs::sampling_ratio), field("aligned", &RoiAlignAttrs::aligned)};
  }
};
struct RoiAlignGradAttrs {
  Shape shape{};  // shape of x
  double spatial_scale = 1;
  std::int64_t sampling_ratio = 0;
  bool aligned = false;
  static AttrFields fields() {
    return {field("shape", &RoiAlignGradAttrs::shape), field("spatial_scale", &RoiAlignGradAttrs::spatial_scale),
            field("sampling_ratio", &RoiAlignGradAttrs::sampling_ratio), field("aligned", &RoiAlignGradAttrs::aligned)};
  }
};

// Box in pixels of x.
struct RoiBox {
  double left = 0, top = 0;
  double bin_h = 0, bin_w = 0;
  std::int64_t points_h = 0, points_w = 0;
  double points() const;  // per bin, at least 1
};
RoiBox roi_box(const float* box, const Pair& size, double spatial_scale, std::int64_t sampling_ratio, bool aligned,
               std::int64_t number);

// Four pixels around a point of an image [h, w], and their weights; zero weights if it lies outside.
struct RoiPoint {
  std::int64_t place[4] = {0, 0, 0, 0};
  double weight[4] = {0, 0, 0, 0};
};
RoiPoint roi_point(double row, double column, std::int64_t h, std::int64_t w);

struct NmsAttrs {
  double iou_threshold = 0.5;
  static AttrFields fields() { return {field("iou_threshold", &NmsAttrs::iou_threshold)}; }
};

std::vector<std::int64_t> nms_kept(std::span<const double> boxes, std::span<const double> scores, double iou_threshold);

}  // namespace starling::op
