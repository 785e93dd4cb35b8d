#pragma once

#include "starling/base/config/settings.h"
#include "starling/nn/module.h"

namespace starling::zoo {

struct LocalImageOptions {
  std::int64_t classes = 1000;
  std::int64_t channels = 3;
  std::int64_t image = 100;
  std::int64_t maps = 8;  // filters per patch; the paper has 8 to 36
  std::int64_t stages = 3;
  std::int64_t kernel = 10;  // height and width of the patches
  std::int64_t pool = 5;     // height and width of the L2 pooling windows, at stride 1
  static Settings settings();
};
// DistBelief's image model (Dean et al. 2012, after Le et al. 2012): stages of locally connected filters (weights not
// shared between positions), L2 pooling and local contrast normalisation, then one dense layer.
nn::Sequential local_image(const LocalImageOptions& options = {});

}  // namespace starling::zoo
