#pragma once

#include "starling/base/config/settings.h"
#include "starling/nn/module.h"

namespace starling::zoo {

struct LenetOptions {
  std::int64_t classes = 10;
  std::int64_t channels = 1;
  std::int64_t image = 28;
  static Settings settings();
};
// LeNet: two convolutions with pooling and tanh, two dense layers. [n, channels, image, image] → [n, classes]
nn::Sequential lenet(const LenetOptions& options = {});

}  // namespace starling::zoo
