#pragma once

#include <vector>

#include "starling/dist/strategy/rank_strategy.h"

namespace starling {

// The part of the optimizer's state that lies beside the weights: momentum and the like, of their shapes. Not rates and
// counts, which are the same everywhere and would lose digits in an average.
std::vector<NamedTensor> moments_of(const TrainedState& state);

}  // namespace starling
