#pragma once

#include <cstdint>

#include "starling/kernels/cpu/conv/conv_shape.h"

namespace starling::kernels {

// Plane of an image arranged so that every tap of a convolution is a plain vector load: rows of one pitch with the
// padding stored as zeros, and at stride s one such plane per remainder (phase) of rows and columns by s. Output
// position (oh, ow) reads tap (kh, kw) at offset(kh, kw) + oh * pitch + ow.
class PhasedPlanes {
 public:
  // True if the planes stay near the size of the image: no large strides, no padding far beyond it.
  static bool takes(const Conv2dShape& shape);
  // slack: floats behind each plane that vectors may write.
  PhasedPlanes(const Conv2dShape& shape, std::int64_t slack);

  std::int64_t rows() const { return rows_; }
  std::int64_t pitch() const { return pitch_; }
  std::int64_t plane() const { return plane_; }
  std::int64_t phases() const { return stride_h_ * stride_w_; }
  std::int64_t size() const { return plane_ * phases(); }
  std::int64_t offset(std::int64_t kh, std::int64_t kw) const;

  // Writes only elements inside the image: the zeros around it remain from one plane to the next.
  void load(const float* image, float* planes) const;
  void store(const float* planes, float* image) const;

 private:
  float* row_of(float* planes, std::int64_t h) const;

  std::int64_t in_h_, in_w_, pad_h_, pad_w_, stride_h_, stride_w_, dilation_h_, dilation_w_;
  std::int64_t rows_, pitch_, plane_;
};

}  // namespace starling::kernels
