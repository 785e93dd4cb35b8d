#pragma once

#include "starling/base/config/settings.h"
#include "starling/nn/module.h"

namespace starling::zoo {

struct MobilenetOptions {
  std::int64_t classes = 1000;
  std::int64_t channels = 3;
  std::int64_t image = 224;
  double width = 1;  // channels are rounded to multiples of 8
  double dropout = 0.2;
  static Settings settings();
};
// Sandler et al. 2018: inverted residuals with depthwise convolutions and relu6. [n, channels, h, w] → [n, classes]
nn::Sequential mobilenet_v2(const MobilenetOptions& options = {});

struct EfficientnetOptions {
  std::int64_t classes = 1000;
  std::int64_t channels = 3;
  std::int64_t image = 224;
  double width = 1;
  double dropout = 0.2;
  double stochastic_depth = 0.2;  // probability of skipping the last block; proportionally less for earlier ones
  static Settings settings();
};
// Tan & Le 2019, B0: inverted residuals with squeeze-excite, silu and stochastic depth.
nn::Sequential efficientnet_b0(const EfficientnetOptions& options = {});

}  // namespace starling::zoo
