#pragma once

#include "starling/base/config/settings.h"
#include "starling/nn/module.h"

namespace starling::zoo {

struct ResnetOptions {
  std::int64_t classes = 1000;
  std::int64_t channels = 3;
  std::int64_t image = 224;
  double width = 1;
  std::int64_t depth = 0;  // blocks per stage; 0: as published
  static Settings settings();
};
// Residual networks with batch norm (He et al. 2015; 50 and more layers with bottlenecks): [n, channels, h, w] →
// [n, classes]
nn::Sequential resnet18(const ResnetOptions& options = {});
nn::Sequential resnet34(const ResnetOptions& options = {});
nn::Sequential resnet50(const ResnetOptions& options = {});
nn::Sequential resnet101(const ResnetOptions& options = {});
nn::Sequential resnet152(const ResnetOptions& options = {});

struct ResnetSmallOptions {
  std::int64_t classes = 10;
  std::int64_t channels = 1;
  std::int64_t image = 28;
  std::int64_t depth = 2;     // blocks in each of the three stages: 6 · depth + 2 layers
  std::int64_t filters = 16;  // of the first stage; doubled in each later one
  static Settings settings();
};
// Residual network of He et al. for images of about 32 × 32: a 3 × 3 convolution, three stages, global average pooling,
// a dense layer.
nn::Sequential resnet_small(const ResnetSmallOptions& options = {});

}  // namespace starling::zoo
