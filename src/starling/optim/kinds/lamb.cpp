#include "starling/optim/lamb.h"

#include "starling/optim/add_kind.h"

namespace starling::optim {

Settings LambOptions::settings() {
  using O = LambOptions;
  return {setting("lr", &O::lr, "the learning rate", {.min = 0}),
          setting("beta1", &O::beta1, "how much of the mean gradient is kept", {.min = 0, .max = 1}),
          setting("beta2", &O::beta2, "how much of the mean square is kept", {.min = 0, .max = 1}),
          setting("eps", &O::eps, "added to the root of the mean square", {.min = 0}),
          setting("weight_decay", &O::weight_decay, "times the weights, added to the direction", {.min = 0})};
}

Lamb::Lamb(std::vector<ParameterGroup> groups, const LambOptions& o)
    : RuleOptimizer(std::move(groups), setup(o, {"exp_avg", "exp_avg_sq"}),
                    {.beta1 = o.beta1, .beta2 = o.beta2, .eps = o.eps, .weight_decay = o.weight_decay}) {}

}  // namespace starling::optim

namespace starling {
void register_optimizer_lamb(optim::OptimizerKinds& kinds) {
  optim::add_kind<optim::Lamb, optim::LambOptions>(kinds, "lamb",
                                                   "LAMB: Adam with steps scaled by the norms of each layer");
}
}  // namespace starling
