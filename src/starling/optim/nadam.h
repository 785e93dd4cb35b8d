#pragma once

#include "starling/base/config/settings.h"
#include "starling/ops/updates/nadam.h"
#include "starling/optim/rule_optimizer.h"

namespace starling::optim {

struct NadamOptions {
  double lr = 2e-3;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  double momentum_decay = 0.004;
  bool decoupled = false;
  std::string name = "nadam";  // prefix of its variables: "nadam.lr"
  static Settings settings();
};

// NAdam (Dozat 2016): Adam with Nesterov momentum that grows over time.
class Nadam : public RuleOptimizer<op::NadamUpdateAttrs> {
 public:
  explicit Nadam(std::vector<ParameterGroup> groups, const NadamOptions& options = {});
  explicit Nadam(std::vector<Tensor> parameters, const NadamOptions& options = {})
      : Nadam(one_group(std::move(parameters)), options) {}

 private:
  void advance(op::UpdateScalars& scalars) override;

  double beta1_;
  double momentum_decay_;
  Tensor product_;  // product of the momenta of all steps so far
};

}  // namespace starling::optim
