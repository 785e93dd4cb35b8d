#include "starling/optim/rmsprop.h"

#include "starling/optim/add_kind.h"

namespace starling::optim {

Settings RmspropOptions::settings() {
  using O = RmspropOptions;
  return {setting("lr", &O::lr, "the learning rate", {.min = 0}),
          setting("alpha", &O::alpha, "how much of the mean square is kept", {.min = 0, .max = 1}),
          setting("eps", &O::eps, "added to the divisor", {.min = 0}),
          setting("weight_decay", &O::weight_decay, "times the weights, added to the gradient", {.min = 0}),
          setting("momentum", &O::momentum, "how much of the last step is kept", {.min = 0}),
          setting("centered", &O::centered, "take the squared mean off the mean square")};
}

namespace {

std::vector<std::string> states(const RmspropOptions& o) {
  std::vector<std::string> names{"square_avg"};
  if (o.centered) names.emplace_back("grad_avg");
  if (o.momentum != 0) names.emplace_back("momentum_buffer");
  return names;
}

}  // namespace

Rmsprop::Rmsprop(std::vector<ParameterGroup> groups, const RmspropOptions& o)
    : RuleOptimizer(std::move(groups), setup(o, states(o)),
                    {.alpha = o.alpha,
                     .eps = o.eps,
                     .momentum = o.momentum,
                     .weight_decay = o.weight_decay,
                     .centered = o.centered}) {}

}  // namespace starling::optim

namespace starling {
void register_optimizer_rmsprop(optim::OptimizerKinds& kinds) {
  optim::add_kind<optim::Rmsprop, optim::RmspropOptions>(kinds, "rmsprop",
                                                         "RMSProp: gradients over their root mean square");
}
}  // namespace starling
