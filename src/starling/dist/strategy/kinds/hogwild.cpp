#include "starling/dist/strategy/hogwild.h"

#include "starling/dist/strategy/strategy_kinds.h"

namespace starling {

void register_strategy_hogwild(StrategyKinds& kinds) {
  add_strategy<Hogwild, HogwildOptions>(kinds, "hogwild", "workers of one host write one set of weights without locks");
}

}  // namespace starling
