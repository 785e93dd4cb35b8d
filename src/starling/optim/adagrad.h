#pragma once

#include "starling/base/config/settings.h"
#include "starling/ops/updates/adagrad.h"
#include "starling/optim/rule_optimizer.h"

namespace starling::optim {

struct AdagradOptions {
  double lr = 0.01;
  double lr_decay = 0;
  double weight_decay = 0;
  double initial_accumulator = 0;
  double eps = 1e-10;
  std::string name = "adagrad";  // prefix of its variables: "adagrad.lr"
  static Settings settings();
};

// Adagrad (Duchi, Hazan and Singer 2011): gradients divided by the root of the sum of all squared gradients.
class Adagrad : public RuleOptimizer<op::AdagradUpdateAttrs> {
 public:
  explicit Adagrad(std::vector<ParameterGroup> groups, const AdagradOptions& options = {});
  explicit Adagrad(std::vector<Tensor> parameters, const AdagradOptions& options = {})
      : Adagrad(one_group(std::move(parameters)), options) {}
};

}  // namespace starling::optim
