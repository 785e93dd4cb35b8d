#include "starling/optim/lion.h"

#include "starling/optim/add_kind.h"

namespace starling::optim {

Settings LionOptions::settings() {
  using O = LionOptions;
  return {setting("lr", &O::lr, "the learning rate", {.min = 0}),
          setting("beta1", &O::beta1, "how much of the mean gradient the direction has", {.min = 0, .max = 1}),
          setting("beta2", &O::beta2, "how much of the mean gradient is kept", {.min = 0, .max = 1}),
          setting("weight_decay", &O::weight_decay, "how much of lr · weights is taken off", {.min = 0})};
}

Lion::Lion(std::vector<ParameterGroup> groups, const LionOptions& o)
    : RuleOptimizer(std::move(groups), setup(o, {"exp_avg"}),
                    {.beta1 = o.beta1, .beta2 = o.beta2, .weight_decay = o.weight_decay}) {}

}  // namespace starling::optim

namespace starling {
void register_optimizer_lion(optim::OptimizerKinds& kinds) {
  optim::add_kind<optim::Lion, optim::LionOptions>(kinds, "lion", "Lion: the sign of a mean gradient");
}
}  // namespace starling
