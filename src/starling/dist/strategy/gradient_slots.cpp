#include "starling/dist/strategy/gradient_slots.h"

#include <algorithm>

namespace starling::dist {
namespace {

// Puts a tensor of the same type in the place of a variable.
void replace(const Tensor& old, const Tensor& by, graph::Graph& graph, Container& container) {
  for (graph::GraphVariable& variable : graph.variables) {
    if (!variable.tensor.defined() || !same(variable.tensor, old)) continue;
    variable.tensor = by;
    container.set(variable.name, by);
  }
}

}  // namespace

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

const GradientSlot* SharedSlots::known(const GradientSlot& fresh) const {
  const auto found = std::find_if(slots_.begin(), slots_.end(), [&](const GradientSlot& one) {
    return same(one.variable, fresh.variable) && one.slot.type() == fresh.slot.type();
  });
  return found == slots_.end() ? nullptr : &*found;
}

void SharedSlots::share(graph::Graph& global, Container& container, ShardedState& sharded, CutsOf cuts) {
  for (const GradientSlot& fresh : gradient_slots(global)) {
    const GradientSlot* kept = known(fresh);
    if (kept == nullptr) {
      slots_.push_back(fresh);
      sharded.cut(fresh.slot, cuts(fresh.variable));
      continue;
    }
    if (same(kept->slot, fresh.slot)) continue;
    if (sharded.piece(kept->slot) != nullptr)
      sharded.put(kept->slot, fresh.slot);
    else
      copy_into(kept->slot, fresh.slot);
    replace(fresh.slot, kept->slot, global, container);
    fresh.variable.set_grad(kept->slot);
  }
}

std::vector<NamedTensor> SharedSlots::tensors() const {
  std::vector<NamedTensor> named;
  for (const auto& [variable, slot] : slots_) named.push_back({slot.name(), slot});
  return named;
}

}  // namespace starling::dist
