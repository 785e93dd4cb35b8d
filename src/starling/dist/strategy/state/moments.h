#pragma once

#include <vector>

#include "starling/dist/strategy/rank_strategy.h"

namespace starling::dist {

// Optimizer state with the shapes of the weights, such as momentum. Excludes learning rates and step counts, which are
// equal everywhere and would lose digits in an average.
std::vector<NamedTensor> moments_of(const TrainedState& state);

}  // namespace starling::dist
