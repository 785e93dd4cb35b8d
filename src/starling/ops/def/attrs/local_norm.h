#pragma once

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling::op {

struct LocalResponseNormAttrs {
  std::int64_t size = 5;
  double alpha = 1e-4;
  double beta = 0.75;
  double k = 1;
  static AttrFields fields() {
    return {field("size", &LocalResponseNormAttrs::size), field("alpha", &LocalResponseNormAttrs::alpha),
            field("beta", &LocalResponseNormAttrs::beta), field("k", &LocalResponseNormAttrs::k)};
  }
};

struct ChannelWindowAttrs {
  std::int64_t before = 0;
  std::int64_t after = 0;
  static AttrFields fields() {
    return {field("before", &ChannelWindowAttrs::before), field("after", &ChannelWindowAttrs::after)};
  }
};
// Sum over the existing channels from c - before to c + after.
Tensor channel_window_sum(const Tensor& x, const ChannelWindowAttrs& attrs);

struct LocalContrastNormAttrs {
  std::int64_t size = 9;  // window size, odd
  double sigma = 2;       // standard deviation of the Gaussian, in pixels
  double epsilon = 1e-5;
  static AttrFields fields() {
    return {field("size", &LocalContrastNormAttrs::size), field("sigma", &LocalContrastNormAttrs::sigma),
            field("epsilon", &LocalContrastNormAttrs::epsilon)};
  }
};

struct GaussianMeanAttrs {
  std::int64_t size = 9;
  double sigma = 2;
  static AttrFields fields() {
    return {field("size", &GaussianMeanAttrs::size), field("sigma", &GaussianMeanAttrs::sigma)};
  }
};
struct GaussianMeanGradAttrs {
  Shape shape{};  // shape of x
  std::int64_t size = 9;
  double sigma = 2;
  static AttrFields fields() {
    return {field("shape", &GaussianMeanGradAttrs::shape), field("size", &GaussianMeanGradAttrs::size),
            field("sigma", &GaussianMeanGradAttrs::sigma)};
  }
};
Tensor gaussian_mean(const Tensor& x,
                     const GaussianMeanAttrs& attrs);  // G of local_contrast_norm: [n, c, h, w] → [n, 1, h, w]

}  // namespace starling::op
