#include "starling/dist/strategy/emso.h"

#include "starling/dist/strategy/strategy_kinds.h"

namespace starling::dist {

void register_strategy_emso(StrategyKinds& kinds) {
  add_strategy<Emso, EmsoOptions>(
      kinds, "emso", "workers make several steps on every batch, tied to where it began, and average their weights");
}

}  // namespace starling::dist
