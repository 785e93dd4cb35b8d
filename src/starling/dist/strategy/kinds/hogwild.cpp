#include "starling/dist/strategy/hogwild.h"

#include "starling/dist/strategy/strategy_kinds.h"

namespace starling::dist {
namespace {

// Default lag for jobs, whose epochs should not wait for a slower worker; C++ callers choose their own.
struct JobOptions : HogwildOptions {
  JobOptions() { lag = 4; }
};

}  // namespace

void register_strategy_hogwild(StrategyKinds& kinds) {
  add_strategy<Hogwild, JobOptions>(kinds, "hogwild", "workers of one host write one set of weights without locks");
}

}  // namespace starling::dist
