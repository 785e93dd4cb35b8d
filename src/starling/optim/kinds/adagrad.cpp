#include "starling/optim/adagrad.h"

#include "starling/optim/add_kind.h"

namespace starling::optim {

Settings AdagradOptions::settings() {
  using O = AdagradOptions;
  return {setting("lr", &O::lr, "the learning rate", {.min = 0}),
          setting("lr_decay", &O::lr_decay, "the rate falls as 1 / (1 + lr_decay · steps)", {.min = 0}),
          setting("weight_decay", &O::weight_decay, "times the weights, added to the gradient", {.min = 0}),
          setting("initial_accumulator", &O::initial_accumulator, "the sum of squares at the beginning", {.min = 0}),
          setting("eps", &O::eps, "added to the divisor", {.min = 0})};
}

Adagrad::Adagrad(std::vector<ParameterGroup> groups, const AdagradOptions& o)
    : RuleOptimizer(
          std::move(groups),
          {.name = o.name, .lr = o.lr, .weight_decay = o.weight_decay, .states = {{"sum", o.initial_accumulator}}},
          {.lr_decay = o.lr_decay, .eps = o.eps, .weight_decay = o.weight_decay}) {}

}  // namespace starling::optim

namespace starling {
void register_optimizer_adagrad(optim::OptimizerKinds& kinds) {
  optim::add_kind<optim::Adagrad, optim::AdagradOptions>(kinds, "adagrad",
                                                         "Adagrad: steps over the root of the sum of squares");
}
}  // namespace starling
