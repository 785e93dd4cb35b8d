#pragma once

#include <cstdint>

namespace starling {

// Two-dimensional pooling of planes: x [planes, in_h, in_w], y [planes, out_h, out_w], dense; planes = batch *
// channels.
struct Pool2dShape {
  std::int64_t planes = 0;
  std::int64_t in_h = 0;
  std::int64_t in_w = 0;
  std::int64_t kernel_h = 2;
  std::int64_t kernel_w = 2;
  std::int64_t stride_h = 2;
  std::int64_t stride_w = 2;
  std::int64_t pad_h = 0;
  std::int64_t pad_w = 0;
  bool ceil_mode = false;         // a last window that begins inside the image or its left border counts
  bool count_include_pad = true;  // averages: padding counts as zeros in the divisor

  std::int64_t out_h() const { return outputs(in_h, kernel_h, stride_h, pad_h); }
  std::int64_t out_w() const { return outputs(in_w, kernel_w, stride_w, pad_w); }

 private:
  std::int64_t outputs(std::int64_t in, std::int64_t kernel, std::int64_t stride, std::int64_t pad) const {
    const std::int64_t out = (in + 2 * pad - kernel + (ceil_mode ? stride - 1 : 0)) / stride + 1;
    return ceil_mode && (out - 1) * stride >= in + pad ? out - 1 : out;
  }
};

// Threads share out planes; results do not depend on their number. All throw Error when padding exceeds half the kernel
// or the kernel exceeds the padded image.
//
// The largest element of each window. Of equals the first counts; a NaN wins over numbers. No indices are kept: the
// gradient finds the winners again from x, which is cheaper than writing and reading them.
void max_pool2d_forward(const Pool2dShape& shape, const float* x, float* y, int threads);
void max_pool2d_backward(const Pool2dShape& shape, const float* x, const float* dy, float* dx, int threads);

void avg_pool2d_forward(const Pool2dShape& shape, const float* x, float* y, int threads);
void avg_pool2d_backward(const Pool2dShape& shape, const float* dy, float* dx, int threads);

}  // namespace starling
