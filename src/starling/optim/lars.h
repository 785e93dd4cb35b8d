#pragma once

#include "starling/base/config/settings.h"
#include "starling/ops/updates/lars.h"
#include "starling/optim/rule_optimizer.h"

namespace starling::optim {

struct LarsOptions {
  double lr = 0.1;
  double momentum = 0.9;
  double trust = 0.001;
  double eps = 0;
  double weight_decay = 1e-4;
  std::string name = "lars";  // prefix of its variables: "lars.lr"
  static Settings settings();
};

// LARS (You, Gitman and Ginsburg 2017): momentum with a learning rate per layer from the norms of weights and
// gradients.
class Lars : public RuleOptimizer<op::LarsUpdateAttrs> {
 public:
  explicit Lars(std::vector<ParameterGroup> groups, const LarsOptions& options = {});
  explicit Lars(std::vector<Tensor> parameters, const LarsOptions& options = {})
      : Lars(one_group(std::move(parameters)), options) {}
};

}  // namespace starling::optim
