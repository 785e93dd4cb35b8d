#include "starling/dist/strategy/strategy_kinds.h"

namespace starling::dist {

void register_strategies(StrategyKinds& into);  // generated

const StrategyKinds& strategy_kinds() {
  static const StrategyKinds kinds = [] {
    StrategyKinds made;
    register_strategies(made);
    return made;
  }();
  return kinds;
}

}  // namespace starling::dist
