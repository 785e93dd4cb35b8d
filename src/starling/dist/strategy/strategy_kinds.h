#pragma once

#include <functional>
#include <memory>

#include "starling/base/config/kinds.h"
#include "starling/dist/strategy/rank_strategy.h"

namespace starling::dist {

// Makes the strategy of one rank on its communicator. Collective where the strategy's constructor is.
using StrategyMaker = std::function<std::shared_ptr<RankStrategy>(std::shared_ptr<Comm>)>;
using StrategyKinds = Kinds<StrategyMaker>;

// Strategies by the names that jobs use, `distribute: {strategy: local_sgd, every: 8}`; built from the files in
// strategy/kinds.
const StrategyKinds& strategy_kinds();

// Registers strategy S, constructed from a communicator and options, under a name for jobs.
template <class S, class Options>
void add_strategy(StrategyKinds& kinds, const std::string& name, std::string doc) {
  kinds.add<Options>(name, std::move(doc), [](const Options& options) -> StrategyMaker {
    return [options](std::shared_ptr<Comm> comm) -> std::shared_ptr<RankStrategy> {
      return std::make_shared<S>(std::move(comm), options);
    };
  });
}

}  // namespace starling::dist
