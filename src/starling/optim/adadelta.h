#pragma once

#include "starling/base/settings.h"
#include "starling/optim/rule_optimizer.h"

namespace starling::optim {

struct AdadeltaOptions {
  double lr = 1;
  double rho = 0.9;
  double eps = 1e-6;
  double weight_decay = 0;
  std::string name = "adadelta";  // of its state
  static Settings settings();
};

// Adadelta (Zeiler 2012): steps as large as the last ones were, over the root mean square of gradients.
class Adadelta : public RuleOptimizer<AdadeltaUpdateAttrs> {
 public:
  explicit Adadelta(std::vector<ParameterGroup> groups, const AdadeltaOptions& options = {});
  explicit Adadelta(std::vector<Tensor> parameters, const AdadeltaOptions& options = {})
      : Adadelta(one_group(std::move(parameters)), options) {}
};

}  // namespace starling::optim
