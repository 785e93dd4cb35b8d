#include "starling/optim/lars.h"

#include "starling/optim/add_kind.h"

namespace starling::optim {

Settings LarsOptions::settings() {
  using O = LarsOptions;
  return {setting("lr", &O::lr, "the learning rate", {.min = 0}),
          setting("momentum", &O::momentum, "how much of the last step is kept", {.min = 0}),
          setting("trust", &O::trust, "how far a step may move a layer, as a share of its norm", {.min = 0}),
          setting("eps", &O::eps, "added to the norms of gradients", {.min = 0}),
          setting("weight_decay", &O::weight_decay, "times the weights, added to the gradient", {.min = 0})};
}

Lars::Lars(std::vector<ParameterGroup> groups, const LarsOptions& o)
    : RuleOptimizer(std::move(groups), setup(o, {"velocity"}),
                    {.momentum = o.momentum, .trust = o.trust, .eps = o.eps, .weight_decay = o.weight_decay}) {}

}  // namespace starling::optim

namespace starling {
void register_optimizer_lars(optim::OptimizerKinds& kinds) {
  optim::add_kind<optim::Lars, optim::LarsOptions>(kinds, "lars", "LARS: momentum with a rate for each layer");
}
}  // namespace starling
