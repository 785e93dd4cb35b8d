#pragma once

#include "starling/base/config/settings.h"
#include "starling/ops/updates/adadelta.h"
#include "starling/optim/rule_optimizer.h"

namespace starling::optim {

struct AdadeltaOptions {
  double lr = 1;
  double rho = 0.9;
  double eps = 1e-6;
  double weight_decay = 0;
  std::string name = "adadelta";  // prefix of its variables: "adadelta.lr"
  static Settings settings();
};

// Adadelta (Zeiler 2012): gradients scaled by the root mean square of past steps over that of gradients.
class Adadelta : public RuleOptimizer<op::AdadeltaUpdateAttrs> {
 public:
  explicit Adadelta(std::vector<ParameterGroup> groups, const AdadeltaOptions& options = {});
  explicit Adadelta(std::vector<Tensor> parameters, const AdadeltaOptions& options = {})
      : Adadelta(one_group(std::move(parameters)), options) {}
};

}  // namespace starling::optim
