#pragma once

#include <vector>

#include "starling/base/config/settings.h"
#include "starling/nn/module.h"

namespace starling::zoo {

struct UnetOptions {
  std::int64_t classes = 2;
  std::int64_t channels = 3;
  std::int64_t image = 256;   // must be a multiple of 2^depth
  std::int64_t filters = 64;  // of the finest level; doubled at each coarser one
  std::int64_t depth = 4;     // number of times the image is halved
  static Settings settings();
};

// U-Net (Ronneberger et al. 2015) with padding and batch norm: an encoder and a decoder with skip connections at every
// level. [n, channels, h, w] → logits [n, classes, h, w].
class Unet : public nn::Module {
 public:
  explicit Unet(const UnetOptions& options = {});

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  UnetOptions options_;
  std::shared_ptr<nn::Module> pool_;
  std::vector<std::shared_ptr<nn::Module>> down_;  // from fine to coarse
  std::vector<std::shared_ptr<nn::Module>> up_;    // from coarse to fine
  std::vector<std::shared_ptr<nn::Module>> mix_;   // after each of up_
  std::shared_ptr<nn::Module> head_;
};

}  // namespace starling::zoo
