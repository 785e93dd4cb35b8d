#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "starling/dist/strategy/rank_strategy.h"
#include "starling/dist/strategy/state/flat_tensors.h"

namespace starling::dist {

// Optimizer state with the shapes of the weights, such as momentum. Excludes learning rates and step counts, which are
// equal everywhere and would lose digits in an average.
std::vector<NamedTensor> moments_of(const TrainedState& state);

// Collective: sum over ranks of share · values, packed; the tensors stay as they are.
std::vector<FlatTensors> summed(Comm& comm, std::span<const NamedTensor> tensors, double share, std::string_view name);

}  // namespace starling::dist
