#include "starling/optim/nadam.h"

#include <cmath>

#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/unary.h"
#include "starling/optim/add_kind.h"

namespace starling::optim {

Settings NadamOptions::settings() {
  using O = NadamOptions;
  return {setting("lr", &O::lr, "the learning rate", {.min = 0}),
          setting("beta1", &O::beta1, "how much of the mean gradient is kept", {.min = 0, .max = 1}),
          setting("beta2", &O::beta2, "how much of the mean square is kept", {.min = 0, .max = 1}),
          setting("eps", &O::eps, "added to the root of the mean square", {.min = 0}),
          setting("weight_decay", &O::weight_decay, "times the weights, added to the gradient", {.min = 0}),
          setting("momentum_decay", &O::momentum_decay, "how fast the momentum grows to beta1", {.min = 0}),
          setting("decoupled", &O::decoupled, "take weight decay off the weights instead")};
}

Nadam::Nadam(std::vector<ParameterGroup> groups, const NadamOptions& o)
    : RuleOptimizer(std::move(groups), setup(o, {"exp_avg", "exp_avg_sq"}),
                    {.beta1 = o.beta1,
                     .beta2 = o.beta2,
                     .eps = o.eps,
                     .weight_decay = o.weight_decay,
                     .momentum_decay = o.momentum_decay,
                     .decoupled = o.decoupled}),
      beta1_(o.beta1),
      momentum_decay_(o.momentum_decay),
      product_(add_scalar("mu_product", 1, DType::f64)) {}

void Nadam::advance(op::UpdateScalars& scalars) {
  RuleOptimizer::advance(scalars);
  const Tensor grown = exp(cast(scalars.t, DType::f64) * (momentum_decay_ * std::log(0.96)));
  assign_unless(scalars.skip, product_, product_ * (beta1_ * (1 - 0.5 * grown)));
  scalars.mu = product_;
}

}  // namespace starling::optim

namespace starling {
void register_optimizer_nadam(optim::OptimizerKinds& kinds) {
  optim::add_kind<optim::Nadam, optim::NadamOptions>(kinds, "nadam", "Adam with Nesterov's momentum");
}
}  // namespace starling
