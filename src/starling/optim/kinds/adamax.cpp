#include "starling/optim/adamax.h"

#include "starling/optim/add_kind.h"

namespace starling::optim {

Settings AdamaxOptions::settings() {
  using O = AdamaxOptions;
  return {setting("lr", &O::lr, "the learning rate", {.min = 0}),
          setting("beta1", &O::beta1, "how much of the mean gradient is kept", {.min = 0, .max = 1}),
          setting("beta2", &O::beta2, "how much of the largest gradient is kept", {.min = 0, .max = 1}),
          setting("eps", &O::eps, "added to the size of gradients", {.min = 0}),
          setting("weight_decay", &O::weight_decay, "times the weights, added to the gradient", {.min = 0})};
}

Adamax::Adamax(std::vector<ParameterGroup> groups, const AdamaxOptions& o)
    : RuleOptimizer(std::move(groups), setup(o, {"exp_avg", "exp_inf"}),
                    {.beta1 = o.beta1, .beta2 = o.beta2, .eps = o.eps, .weight_decay = o.weight_decay}) {}

}  // namespace starling::optim

namespace starling {
void register_optimizer_adamax(optim::OptimizerKinds& kinds) {
  optim::add_kind<optim::Adamax, optim::AdamaxOptions>(
      kinds, "adamax", "Adam with the largest gradient in the place of the mean square");
}
}  // namespace starling
