#include "starling/dist/strategy/hogwild.h"

#include "starling/dist/strategy/strategy_kinds.h"

namespace starling {
namespace {

// Whoever calls from C++ says what may be left out; the epochs of a job are not to wait for a worker that is slower.
struct JobOptions : HogwildOptions {
  JobOptions() { lag = 4; }
};

}  // namespace

void register_strategy_hogwild(StrategyKinds& kinds) {
  add_strategy<Hogwild, JobOptions>(kinds, "hogwild", "workers of one host write one set of weights without locks");
}

}  // namespace starling
