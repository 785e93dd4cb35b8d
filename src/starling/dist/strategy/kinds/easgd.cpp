#include "starling/dist/strategy/easgd.h"

#include "starling/dist/strategy/strategy_kinds.h"

namespace starling::dist {
namespace {

// Default lag for jobs, whose epochs should not wait for a slower worker; C++ callers choose their own.
struct JobOptions : EasgdOptions {
  JobOptions() { lag = 4; }
};

}  // namespace

void register_strategy_easgd(StrategyKinds& kinds) {
  add_strategy<Easgd, JobOptions>(kinds, "easgd",
                                  "elastic averaging: workers explore by themselves, tied to a common centre");
}

}  // namespace starling::dist
