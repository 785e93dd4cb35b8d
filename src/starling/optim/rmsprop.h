#pragma once

#include "starling/base/config/settings.h"
#include "starling/ops/updates/rmsprop.h"
#include "starling/optim/rule_optimizer.h"

namespace starling::optim {

struct RmspropOptions {
  double lr = 0.01;
  double alpha = 0.99;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum = 0;
  bool centered = false;
  std::string name = "rmsprop";  // prefix of its variables: "rmsprop.lr"
  static Settings settings();
};

// RMSProp (Tieleman and Hinton 2012): gradients divided by their root mean square; centered: by their deviation.
class Rmsprop : public RuleOptimizer<op::RmspropUpdateAttrs> {
 public:
  explicit Rmsprop(std::vector<ParameterGroup> groups, const RmspropOptions& options = {});
  explicit Rmsprop(std::vector<Tensor> parameters, const RmspropOptions& options = {})
      : Rmsprop(one_group(std::move(parameters)), options) {}
};

}  // namespace starling::optim
