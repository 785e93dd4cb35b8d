#include "starling/dist/strategy/easgd.h"

#include "starling/dist/strategy/strategy_kinds.h"

namespace starling {
namespace {

// Whoever calls from C++ says what may be left out; the epochs of a job are not to wait for a worker that is slower.
struct JobOptions : EasgdOptions {
  JobOptions() { lag = 4; }
};

}  // namespace

void register_strategy_easgd(StrategyKinds& kinds) {
  add_strategy<Easgd, JobOptions>(kinds, "easgd",
                                  "elastic averaging: workers explore by themselves, tied to a common centre");
}

}  // namespace starling
