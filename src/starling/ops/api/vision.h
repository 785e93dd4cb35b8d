#pragma once

#include <span>
#include <vector>

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

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

// RoIAlign: regions of feature maps resampled to one size. x [n, c, h, w], boxes f32 [k, 4] of (left, top, right,
// bottom), sample i64 [k], the index in [0, n) of each box → [k, c, size…]. Each bin is the mean of bilinear values at
// its points; points more than one pixel outside count as 0. Only x has a gradient. Refuses boxes that are not finite
// or need more than 4096 points per bin.
Tensor roi_align(const Tensor& x, const Tensor& boxes, const Tensor& sample, const RoiAlignAttrs& attrs = {});

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

// Non-maximum suppression: boxes [n, 4] and scores [n] → i64 indices of the boxes kept, by falling score (the first of
// equal scores first). A box is dropped if its intersection over union with a kept one is above the threshold. Eager
// only: the size of the result depends on values.
Tensor nms(const Tensor& boxes, const Tensor& scores, double iou_threshold = 0.5);
std::vector<std::int64_t> nms_kept(std::span<const double> boxes, std::span<const double> scores, double iou_threshold);

}  // namespace starling
