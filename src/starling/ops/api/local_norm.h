#pragma once

#include "starling/ops/def/attrs.h"
#include "starling/tensor/tensor.h"

namespace starling {

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

// x [n, c, …] divided by (k + alpha / size · Σ x²)^beta, the sum over the `size` channels around each one: from
// c - size / 2 to c + (size - 1) / 2, those that exist. AlexNet: size 5, alpha 5e-4 (1e-4 · size), beta 0.75, k 2.
Tensor local_response_norm(const Tensor& x, const LocalResponseNormAttrs& attrs = {});

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

// Subtractive, then divisive normalisation (Jarrett et al. 2009) of x [n, c, h, w]. With G the mean over all channels
// and a window of size × size pixels, weighted by a Gaussian whose weights inside the image are scaled to the sum 1:
//   v = x - G(x),  s = sqrt(G(v²) + epsilon),  y = v / max(s, mean of s over the image).
Tensor local_contrast_norm(const Tensor& x, const LocalContrastNormAttrs& attrs = {});

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
Tensor gaussian_mean(const Tensor& x, const GaussianMeanAttrs& attrs);  // G above: [n, c, h, w] → [n, 1, h, w]

}  // namespace starling
