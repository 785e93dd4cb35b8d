#include "starling/dist/strategy/servers/server_rule.h"

namespace starling::dist {
namespace {

// Sandblaster (DistBelief): batch procedures whose vectors stay on the servers.
struct SandblasterOptions {
  using Procedure = ps::CoordinatorOptions::Procedure;
  Procedure procedure = Procedure::lbfgs;
  double lr = 1;
  double l1 = 0;
  std::int64_t history = 10;
  std::int64_t evaluations = 25;
  std::int64_t portions = 16;
  static Settings settings() {
    using O = SandblasterOptions;
    return {
        choice("procedure", &O::procedure, {"lbfgs", "cg", "owlqn"},
               "L-BFGS, nonlinear conjugate gradients, or L-BFGS with an l1 penalty"),
        setting("lr", &O::lr, "length of the first trial step along a direction", {.min = 1e-9}),
        setting("l1", &O::l1, "owlqn: factor of the sum of all weights' absolute values, added to the loss",
                {.min = 0}),
        setting("history", &O::history, "lbfgs, owlqn: steps and gradient differences kept", {.min = 1, .max = 400}),
        setting("evaluations", &O::evaluations, "most evaluations of the loss along one direction",
                {.min = 1, .max = 1000}),
        setting("portions", &O::portions, "portions of an evaluation for each worker, which idle ones take",
                {.min = 1, .max = 65536})};
  }
  ServerRule rule() const {
    ServerRule made{.portions = portions};
    made.procedure = ps::CoordinatorOptions{.procedure = procedure,
                                            .lr = lr,
                                            .l1 = l1,
                                            .history = static_cast<int>(history),
                                            .evaluations = static_cast<int>(evaluations)};
    return made;
  }
};

}  // namespace

void register_strategy_sandblaster(StrategyKinds& kinds) {
  add_server_strategy<SandblasterOptions>(
      kinds, "sandblaster", "L-BFGS and its like over vectors that parameter servers hold; each step sees all samples");
}

}  // namespace starling::dist
