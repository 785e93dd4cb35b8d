#include "starling/dist/strategy/state/moments.h"

#include <algorithm>

namespace starling::dist {

std::vector<NamedTensor> moments_of(const TrainedState& state) {
  std::vector<NamedTensor> moments;
  for (const auto& entry : state.optimizer) {
    if (!is_float(entry.tensor.dtype())) continue;
    const std::string& name = entry.tensor.name().empty() ? entry.name : entry.tensor.name();
    const bool beside = std::any_of(state.weights.begin(), state.weights.end(), [&](const NamedTensor& weight) {
      return weight.tensor.shape() == entry.tensor.shape() && name.starts_with(weight.tensor.name() + ".");
    });
    if (beside) moments.push_back(entry);
  }
  return moments;
}

}  // namespace starling::dist
