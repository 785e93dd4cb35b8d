#include "starling/dist/strategy/local_sgd.h"

#include "starling/dist/strategy/strategy_kinds.h"

namespace starling::dist {

void register_strategy_local_sgd(StrategyKinds& kinds) {
  add_strategy<LocalSgd, LocalSgdOptions>(kinds, "local_sgd",
                                          "workers train by themselves and average their weights every few steps");
}

}  // namespace starling::dist
