#pragma once

#include <vector>

#include "starling/ops/def/attrs.h"

namespace starling::op {

// Resampling grid. Pixels of the result lie evenly over x's; their distance is in / out pixels of x, or 1 / scale if a
// scale is given. With align_corners (bilinear only) it is (in - 1) / (out - 1), so that the corner pixels coincide.
struct InterpolateAttrs {
  Pair size{0, 0};     // size of the result; 0, 0: ⌊in · scale⌋
  double scale_h = 0;  // 0: from the sizes
  double scale_w = 0;
  Symbol mode{"nearest"};  // or bilinear
  bool align_corners = false;
  static AttrFields fields() {
    return {field("size", &InterpolateAttrs::size), field("scale_h", &InterpolateAttrs::scale_h),
            field("scale_w", &InterpolateAttrs::scale_w), field("mode", &InterpolateAttrs::mode),
            field("align_corners", &InterpolateAttrs::align_corners)};
  }
};
struct InterpolateGradAttrs {
  Shape shape{};  // shape of x
  double scale_h = 0;
  double scale_w = 0;
  Symbol mode{"nearest"};
  bool align_corners = false;
  static AttrFields fields() {
    return {field("shape", &InterpolateGradAttrs::shape), field("scale_h", &InterpolateGradAttrs::scale_h),
            field("scale_w", &InterpolateGradAttrs::scale_w), field("mode", &InterpolateGradAttrs::mode),
            field("align_corners", &InterpolateGradAttrs::align_corners)};
  }
};

// Source pixels of pixel i along one dimension: (1 - weight) · x[low] + weight · x[high].
struct PixelMix {
  std::int64_t low = 0;
  std::int64_t high = 0;
  double weight = 0;
};
std::vector<PixelMix> pixel_mixes(std::int64_t in, std::int64_t out, double scale, Symbol mode, bool align_corners);

}  // namespace starling::op
