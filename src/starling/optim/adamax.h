#pragma once

#include "starling/base/config/settings.h"
#include "starling/ops/updates/adamax.h"
#include "starling/optim/rule_optimizer.h"

namespace starling::optim {

struct AdamaxOptions {
  double lr = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  std::string name = "adamax";  // prefix of its variables: "adamax.lr"
  static Settings settings();
};

// Adamax (Kingma and Ba 2015): Adam with a decaying maximum of |gradient| in place of the root mean square.
class Adamax : public RuleOptimizer<op::AdamaxUpdateAttrs> {
 public:
  explicit Adamax(std::vector<ParameterGroup> groups, const AdamaxOptions& options = {});
  explicit Adamax(std::vector<Tensor> parameters, const AdamaxOptions& options = {})
      : Adamax(one_group(std::move(parameters)), options) {}
};

}  // namespace starling::optim
