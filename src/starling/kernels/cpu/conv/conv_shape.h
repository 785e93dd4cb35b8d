#pragma once

#include <cstdint>

namespace starling::kernels {

// Two-dimensional convolution on NCHW: x [batch, in_channels, in_h, in_w], w [out_channels, in_channels / groups,
// kernel_h, kernel_w], y [batch, out_channels, out_h, out_w], all dense.
struct Conv2dShape {
  std::int64_t batch = 0;
  std::int64_t in_channels = 0;
  std::int64_t in_h = 0;
  std::int64_t in_w = 0;
  std::int64_t out_channels = 0;
  std::int64_t kernel_h = 1;
  std::int64_t kernel_w = 1;
  std::int64_t stride_h = 1;
  std::int64_t stride_w = 1;
  std::int64_t pad_h = 0;
  std::int64_t pad_w = 0;
  std::int64_t dilation_h = 1;
  std::int64_t dilation_w = 1;
  std::int64_t groups = 1;

  std::int64_t out_h() const { return (in_h + 2 * pad_h - dilation_h * (kernel_h - 1) - 1) / stride_h + 1; }
  std::int64_t out_w() const { return (in_w + 2 * pad_w - dilation_w * (kernel_w - 1) - 1) / stride_w + 1; }
  std::int64_t positions() const { return out_h() * out_w(); }
  std::int64_t group_in() const { return in_channels / groups; }
  std::int64_t group_out() const { return out_channels / groups; }
  std::int64_t taps() const { return group_in() * kernel_h * kernel_w; }  // products per output element
  // 1 × 1 at stride 1 without padding: the image itself is the matrix of taps.
  bool is_pointwise() const {
    return kernel_h == 1 && kernel_w == 1 && stride_h == 1 && stride_w == 1 && pad_h == 0 && pad_w == 0;
  }
};

// Range of output rows.
struct RowRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

}  // namespace starling::kernels
