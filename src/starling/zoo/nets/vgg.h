#pragma once

#include "starling/base/config/settings.h"
#include "starling/nn/module.h"

namespace starling::zoo {

struct VggOptions {
  std::int64_t classes = 1000;
  std::int64_t channels = 3;
  std::int64_t image = 224;
  double width = 1;
  double dropout = 0.5;  // after the first two dense layers
  static Settings settings();
};
// VGG (Simonyan & Zisserman 2014): stacks of 3 × 3 convolutions between poolings, three dense layers; the _bn variants
// have batch norm after every convolution. [n, channels, image, image] → [n, classes]
nn::Sequential vgg11(const VggOptions& options = {});
nn::Sequential vgg13(const VggOptions& options = {});
nn::Sequential vgg16(const VggOptions& options = {});
nn::Sequential vgg19(const VggOptions& options = {});
nn::Sequential vgg11_bn(const VggOptions& options = {});
nn::Sequential vgg13_bn(const VggOptions& options = {});
nn::Sequential vgg16_bn(const VggOptions& options = {});
nn::Sequential vgg19_bn(const VggOptions& options = {});

}  // namespace starling::zoo
