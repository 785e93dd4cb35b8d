#include "starling/dist/strategy/allreduce.h"

#include "starling/dist/strategy/strategy_kinds.h"

namespace starling::dist {

void register_strategy_allreduce(StrategyKinds& kinds) {
  add_strategy<AllReduce, AllReduceOptions>(kinds, "allreduce",
                                            "synchronous: every step takes the mean of the gradients of all workers");
}

}  // namespace starling::dist
