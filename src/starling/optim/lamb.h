#pragma once

#include "starling/base/config/settings.h"
#include "starling/ops/updates/lamb.h"
#include "starling/optim/rule_optimizer.h"

namespace starling::optim {

struct LambOptions {
  double lr = 1e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-6;
  double weight_decay = 0.01;
  std::string name = "lamb";  // prefix of its variables: "lamb.lr"
  static Settings settings();
};

// LAMB (You and others 2020): Adam with each layer's step scaled to the norm of its weights. Weight decay is part of
// the direction.
class Lamb : public RuleOptimizer<op::LambUpdateAttrs> {
 public:
  explicit Lamb(std::vector<ParameterGroup> groups, const LambOptions& options = {});
  explicit Lamb(std::vector<Tensor> parameters, const LambOptions& options = {})
      : Lamb(one_group(std::move(parameters)), options) {}
};

}  // namespace starling::optim
