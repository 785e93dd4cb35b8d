#include "starling/dist/strategy/easgd.h"

#include "starling/dist/strategy/strategy_kinds.h"

namespace starling {

void register_strategy_easgd(StrategyKinds& kinds) {
  add_strategy<Easgd, EasgdOptions>(kinds, "easgd",
                                    "elastic averaging: workers explore by themselves, tied to a common centre");
}

}  // namespace starling
