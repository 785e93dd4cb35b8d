#include "starling/optim/adadelta.h"

#include "starling/optim/add_kind.h"

namespace starling::optim {

Settings AdadeltaOptions::settings() {
  using O = AdadeltaOptions;
  return {setting("lr", &O::lr, "the learning rate", {.min = 0}),
          setting("rho", &O::rho, "how much of the mean squares is kept", {.min = 0, .max = 1}),
          setting("eps", &O::eps, "added to the mean squares", {.min = 0}),
          setting("weight_decay", &O::weight_decay, "times the weights, added to the gradient", {.min = 0})};
}

Adadelta::Adadelta(std::vector<ParameterGroup> groups, const AdadeltaOptions& o)
    : RuleOptimizer(std::move(groups), setup(o, {"square_avg", "acc_delta"}),
                    {.rho = o.rho, .eps = o.eps, .weight_decay = o.weight_decay}) {}

}  // namespace starling::optim

namespace starling {
void register_optimizer_adadelta(optim::OptimizerKinds& kinds) {
  optim::add_kind<optim::Adadelta, optim::AdadeltaOptions>(kinds, "adadelta",
                                                           "Adadelta: steps in the units of the weights");
}
}  // namespace starling
