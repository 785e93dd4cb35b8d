#include "starling/kernels/cpu/conv/phased_planes.h"

#include "starling/kernels/cpu/conv/conv_cut.h"
#include "starling/kernels/cpu/conv/depthwise_rows.h"

namespace starling::kernels {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace

bool PhasedPlanes::takes(const Conv2dShape& s) {
  constexpr std::int64_t kMostStride = 4, kSmall = 32;
  return s.stride_h <= kMostStride && s.stride_w <= kMostStride && s.pad_h <= s.in_h + kSmall &&
         s.pad_w <= s.in_w + kSmall;
}

PhasedPlanes::PhasedPlanes(const Conv2dShape& s, std::int64_t slack)
    : in_h_(s.in_h),
      in_w_(s.in_w),
      pad_h_(s.pad_h),
      pad_w_(s.pad_w),
      stride_h_(s.stride_h),
      stride_w_(s.stride_w),
      dilation_h_(s.dilation_h),
      dilation_w_(s.dilation_w),
      rows_(divide_up(s.in_h + 2 * s.pad_h, s.stride_h)),
      pitch_(divide_up(s.in_w + 2 * s.pad_w, s.stride_w)),
      plane_(whole_lanes(rows_ * pitch_ + slack)) {}

std::int64_t PhasedPlanes::offset(std::int64_t kh, std::int64_t kw) const {
  const std::int64_t row = kh * dilation_h_, col = kw * dilation_w_;
  return (row % stride_h_ * stride_w_ + col % stride_w_) * plane_ + row / stride_h_ * pitch_ + col / stride_w_;
}

float* PhasedPlanes::row_of(float* planes, std::int64_t h) const {
  const std::int64_t row = h + pad_h_;
  return planes + row % stride_h_ * stride_w_ * plane_ + row / stride_h_ * pitch_;
}

void PhasedPlanes::load(const float* image, float* planes) const {
  if (stride_h_ == 1 && stride_w_ == 1) {
    copy_rows({in_h_, in_w_, in_w_, pitch_}, image, planes + pad_h_ * pitch_ + pad_w_);
    return;
  }
  for (std::int64_t h = 0; h < in_h_; ++h, image += in_w_) {
    float* line = row_of(planes, h);
    if (stride_w_ == 1) {
      copy_rows({1, in_w_, in_w_, pitch_}, image, line + pad_w_);
      continue;
    }
    std::int64_t w = 0;
    if (stride_w_ == 2) {
      // Columns in pairs; with odd padding the first of a pair belongs to the odd plane, one position earlier.
      const std::int64_t odd = pad_w_ % 2, first = pad_w_ / 2, pairs = in_w_ / 2;
      split_pairs(image, pairs, line + odd * plane_ + first, line + (1 - odd) * plane_ + first + odd);
      w = 2 * pairs;
    }
    for (; w < in_w_; ++w) {
      const std::int64_t col = w + pad_w_;
      line[col % stride_w_ * plane_ + col / stride_w_] = image[w];
    }
  }
}

void PhasedPlanes::store(const float* planes, float* image) const {
  if (stride_h_ == 1 && stride_w_ == 1) {
    copy_rows({in_h_, in_w_, pitch_, in_w_}, planes + pad_h_ * pitch_ + pad_w_, image);
    return;
  }
  for (std::int64_t h = 0; h < in_h_; ++h, image += in_w_) {
    const float* line = row_of(const_cast<float*>(planes), h);
    for (std::int64_t phase = 0; phase < stride_w_; ++phase) {
      // Columns w with (w + pad) % stride == phase.
      const std::int64_t first = ((phase - pad_w_) % stride_w_ + stride_w_) % stride_w_;
      const float* at = line + phase * plane_ + (first + pad_w_) / stride_w_;
      for (std::int64_t w = first; w < in_w_; w += stride_w_) image[w] = *at++;
    }
  }
}

}  // namespace starling::kernels
