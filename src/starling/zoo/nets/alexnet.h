#pragma once

#include "starling/base/config/settings.h"
#include "starling/nn/module.h"

namespace starling::zoo {

struct AlexnetOptions {
  std::int64_t classes = 1000;
  std::int64_t channels = 3;
  std::int64_t image = 224;
  double width = 1;
  double dropout = 0.5;  // before the first two dense layers
  static Settings settings();
};
// AlexNet in one column, with 96 filters in the first layer: [n, channels, image, image] → [n, classes]
nn::Sequential alexnet(const AlexnetOptions& options = {});

struct AlexnetOwtOptions {
  std::int64_t classes = 1000;
  std::int64_t channels = 3;
  std::int64_t image = 224;
  double width = 1;
  double dropout = 0;
  static Settings settings();
};
// AlexNet with 64 filters in the first layer, as in "one weird trick" (Krizhevsky 2014).
nn::Sequential alexnet_owt(const AlexnetOwtOptions& options = {});

}  // namespace starling::zoo
