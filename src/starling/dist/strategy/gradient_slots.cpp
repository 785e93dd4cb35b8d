#include "starling/dist/strategy/gradient_slots.h"

#include <algorithm>

namespace starling::dist {

std::vector<GradientSlot> gradient_slots(const graph::Graph& global) {
  std::vector<GradientSlot> slots;
  for (const graph::GraphVariable& variable : global.variables) {
    const Tensor slot = variable.tensor.defined() ? variable.tensor.grad() : Tensor();
    if (!slot.defined()) continue;
    const auto is_slot = [&](const graph::GraphVariable& other) {
      return other.tensor.defined() && same(other.tensor, slot);
    };
    if (std::any_of(global.variables.begin(), global.variables.end(), is_slot))
      slots.push_back({variable.tensor, slot});
  }
  return slots;
}

void replace(const Tensor& old, const Tensor& by, graph::Graph& graph, Container& container) {
  for (graph::GraphVariable& variable : graph.variables) {
    if (!variable.tensor.defined() || !same(variable.tensor, old)) continue;
    variable.tensor = by;
    container.set(variable.name, by);
  }
}

}  // namespace starling::dist
