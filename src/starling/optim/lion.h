#pragma once

#include "starling/base/config/settings.h"
#include "starling/ops/updates/lion.h"
#include "starling/optim/rule_optimizer.h"

namespace starling::optim {

struct LionOptions {
  double lr = 1e-4;
  double beta1 = 0.9;
  double beta2 = 0.99;
  double weight_decay = 0;
  std::string name = "lion";  // prefix of its variables: "lion.lr"
  static Settings settings();
};

// Lion (Chen and others 2023): steps by the sign of a mean gradient; weight decay is decoupled.
class Lion : public RuleOptimizer<op::LionUpdateAttrs> {
 public:
  explicit Lion(std::vector<ParameterGroup> groups, const LionOptions& options = {});
  explicit Lion(std::vector<Tensor> parameters, const LionOptions& options = {})
      : Lion(one_group(std::move(parameters)), options) {}
};

}  // namespace starling::optim
