#pragma once

#include <utility>
#include <vector>

#include "starling/base/config/settings.h"
#include "starling/nn/module.h"
#include "starling/nn/own_loss.h"

namespace starling::zoo {

struct GooglenetOptions {
  std::int64_t classes = 1000;
  std::int64_t channels = 3;
  std::int64_t image = 224;
  double width = 1;
  double dropout = 0.2;
  bool auxiliary = false;         // two more heads, used while training only
  double auxiliary_weight = 0.3;  // weight of each auxiliary loss
  std::int64_t third_kernel = 3;  // of the branch that is 5 × 5 in the paper; torchvision's weights have 3
  static Settings settings();
};

// Szegedy et al. 2014 with batch norm: nine inception modules. [n, channels, image, image] → [n, classes]. Its loss is
// the cross-entropy; while training with auxiliary heads, their losses are added.
class Googlenet : public nn::Module, public nn::OwnLoss {
 public:
  explicit Googlenet(const GooglenetOptions& options = {});
  Outputs own_loss(std::span<const Tensor> fields) override;

 protected:
  Tensor forward(const Tensor& x) override;

 private:
  // Logits of the main head and, with `auxiliary`, of the two others.
  std::vector<Tensor> heads(const Tensor& x, bool auxiliary);

  GooglenetOptions options_;
  std::vector<std::pair<std::shared_ptr<nn::Module>, int>>
      body_;  // and which auxiliary head looks at its output, or -1
  std::vector<std::shared_ptr<nn::Module>> auxiliary_;
  std::shared_ptr<nn::Module> head_;
};

}  // namespace starling::zoo
