#include "starling/dist/strategy/fork_join.h"
#include "starling/dist/strategy/strategy_kinds.h"

namespace starling::dist {
namespace {

// Default lag for jobs, whose epochs should not wait for a slower worker; C++ callers choose their own.
struct JobOptions : ForkJoinOptions {
  JobOptions() { lag = 4; }
};

}  // namespace

void register_strategy_h2o(StrategyKinds& kinds) {
  add_strategy<ForkJoin, JobOptions>(
      kinds, "h2o", "workers of a node write one set of weights without locks, and the nodes' weights are averaged");
}

}  // namespace starling::dist
