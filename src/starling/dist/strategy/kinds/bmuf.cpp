#include "starling/dist/strategy/local_sgd.h"
#include "starling/dist/strategy/strategy_kinds.h"

namespace starling::dist {
namespace {

// Blockwise model-update filtering (CNTK): the way from one common model to the mean of what the workers made of it in
// a block of steps is filtered by a momentum of blocks.
struct BmufOptions {
  std::int64_t every = 16;
  std::optional<double> momentum{};
  double lr = 1;
  bool nesterov = true;
  bool reset_optimizer = true;
  static Settings settings() {
    using O = BmufOptions;
    return {setting("every", &O::every, "steps of a block, between two means", {.min = 1}),
            setting("momentum", &O::momentum, "of the way gone by the blocks; not given: 1 - 1 / workers",
                    {.min = 0, .max = 1}),
            setting("lr", &O::lr, "how much of the way to the mean is gone", {.min = 0}),
            setting("nesterov", &O::nesterov, "look ahead along the momentum of blocks"),
            setting("reset_optimizer", &O::reset_optimizer, "the optimizer's moments are 0 where a block begins")};
  }
  LocalSgdOptions over(int workers) const {
    return {.every = every,
            .reset_optimizer = reset_optimizer,
            .outer_lr = lr,
            .outer_momentum = momentum.value_or(1 - 1.0 / workers),
            .outer_nesterov = nesterov};
  }
};

}  // namespace

void register_strategy_bmuf(StrategyKinds& kinds) {
  kinds.add<BmufOptions>("bmuf",
                         "block momentum: workers train by themselves, and the way of their means has a momentum",
                         [](const BmufOptions& options) -> StrategyMaker {
                           return [options](std::shared_ptr<Comm> comm) -> std::shared_ptr<RankStrategy> {
                             const LocalSgdOptions blocks = options.over(comm->size());
                             return std::make_shared<LocalSgd>(std::move(comm), blocks);
                           };
                         });
}

}  // namespace starling::dist
