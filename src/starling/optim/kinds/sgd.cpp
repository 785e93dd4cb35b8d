#include "starling/optim/sgd.h"

#include "starling/base/error.h"
#include "starling/ops/api/row_sparse.h"
#include "starling/ops/def/attrs/state.h"
#include "starling/ops/def/registry.h"
#include "starling/ops/updates/momentum.h"
#include "starling/optim/add_kind.h"

namespace starling::optim {

Settings SgdOptions::settings() {
  using O = SgdOptions;
  return {setting("lr", &O::lr, "the learning rate", {.min = 0}),
          setting("momentum", &O::momentum, "how much of the last step is kept", {.min = 0}),
          setting("weight_decay", &O::weight_decay, "times the weights, added to the gradient", {.min = 0}),
          setting("nesterov", &O::nesterov, "look ahead along the momentum")};
}

namespace {

auto setup_of(const SgdOptions& o) {
  check(o.momentum >= 0, "[{}] expected a momentum of at least 0, got {}", o.name, o.momentum);
  return o;
}

}  // namespace

Sgd::Sgd(std::vector<Tensor> parameters, const SgdOptions& options)
    : Sgd(std::vector<ParameterGroup>{{.parameters = std::move(parameters)}}, options) {}

Sgd::Sgd(std::vector<ParameterGroup> groups, const SgdOptions& options)
    : Optimizer(std::move(groups), {.name = setup_of(options).name,
                                    .lr = options.lr,
                                    .weight_decay = options.weight_decay,
                                    .states = {{"velocity"}}}),
      attrs_{options.momentum, options.weight_decay, options.nesterov} {}

// Own op `sgd`: it can be fused with the product that makes the gradient, and other devices have no other. It always
// updates a velocity: without momentum the general update op, which has none, touches half the memory.
void Sgd::update(std::span<const Tensor> targets, const Tensor& gradient, double weight_decay,
                 const op::UpdateScalars& scalars) {
  const bool plain = attrs_.momentum == 0 && !is_row_sparse(gradient) && targets[0].device().kind == DeviceKind::cpu;
  if (!scalars.skip.defined() && !plain) {
    return op::sgd_update(targets[0], targets[1], gradient, scalars.lr,
                          {attrs_.momentum, weight_decay, attrs_.nesterov});
  }
  const op::MomentumUpdateAttrs attrs{
      .momentum = attrs_.momentum, .weight_decay = weight_decay, .nesterov = attrs_.nesterov};
  starling::op::update(named_op<"momentum_update">(), attrs, targets.first(1 + attrs.states()), gradient, scalars);
}

}  // namespace starling::optim

namespace starling {
void register_optimizer_sgd(optim::OptimizerKinds& kinds) {
  optim::add_kind<optim::Sgd, optim::SgdOptions>(kinds, "sgd", "stochastic gradient descent with momentum");
}
}  // namespace starling
