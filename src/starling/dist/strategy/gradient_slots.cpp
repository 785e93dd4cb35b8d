#include "starling/dist/strategy/gradient_slots.h"

#include <algorithm>

namespace starling::dist {

std::vector<Tensor> gradient_slots(const graph::Graph& global) {
  std::vector<Tensor> slots;
  for (const graph::GraphVariable& variable : global.variables) {
    const Tensor slot = variable.tensor.defined() ? variable.tensor.grad() : Tensor();
    if (!slot.defined()) continue;
    const auto is_slot = [&](const graph::GraphVariable& other) {
      return other.tensor.defined() && same(other.tensor, slot);
    };
    if (std::any_of(global.variables.begin(), global.variables.end(), is_slot)) slots.push_back(slot);
  }
  return slots;
}

}  // namespace starling::dist
