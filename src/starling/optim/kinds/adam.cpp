#include "starling/optim/adam.h"

#include "starling/optim/add_kind.h"

namespace starling::optim {
namespace {

std::vector<std::string> moments(bool amsgrad) {
  std::vector<std::string> names{"exp_avg", "exp_avg_sq"};
  if (amsgrad) names.emplace_back("max_exp_avg_sq");
  return names;
}

template <class O>
Settings settings_of(const char* decay) {
  return {setting("lr", &O::lr, "the learning rate", {.min = 0}),
          setting("beta1", &O::beta1, "how much of the mean gradient is kept", {.min = 0, .max = 1}),
          setting("beta2", &O::beta2, "how much of the mean square is kept", {.min = 0, .max = 1}),
          setting("eps", &O::eps, "added to the root of the mean square", {.min = 0}),
          setting("weight_decay", &O::weight_decay, decay, {.min = 0}),
          setting("amsgrad", &O::amsgrad, "divide by the largest mean square so far")};
}

template <class O>
op::AdamUpdateAttrs attrs_of(const O& o, bool decoupled) {
  return {.beta1 = o.beta1,
          .beta2 = o.beta2,
          .eps = o.eps,
          .weight_decay = o.weight_decay,
          .decoupled = decoupled,
          .amsgrad = o.amsgrad};
}

}  // namespace

Settings AdamOptions::settings() { return settings_of<AdamOptions>("times the weights, added to the gradient"); }
Settings AdamWOptions::settings() { return settings_of<AdamWOptions>("how much of lr · weights is taken off"); }

Adam::Adam(std::vector<ParameterGroup> groups, const AdamOptions& o)
    : RuleOptimizer(std::move(groups), setup(o, moments(o.amsgrad)), attrs_of(o, false)) {}

AdamW::AdamW(std::vector<ParameterGroup> groups, const AdamWOptions& o)
    : RuleOptimizer(std::move(groups), setup(o, moments(o.amsgrad)), attrs_of(o, true)) {}

}  // namespace starling::optim

namespace starling {
void register_optimizer_adam(optim::OptimizerKinds& kinds) {
  optim::add_kind<optim::Adam, optim::AdamOptions>(kinds, "adam", "Adam: mean gradients over their root mean square");
  optim::add_kind<optim::AdamW, optim::AdamWOptions>(kinds, "adamw", "Adam with weight decay beside the step");
}
}  // namespace starling
