#pragma once

#include <vector>

#include "starling/base/function_ref.h"
#include "starling/dist/strategy/state/sharded_state.h"
#include "starling/graph/graph.h"
#include "starling/runtime/container.h"
#include "starling/tensor/named_tensor.h"

namespace starling::dist {

// Tensor in which gradients of a variable are added up over several batches.
struct GradientSlot {
  Tensor variable, slot;
};

// Gradient slots among the variables of a traced program.
std::vector<GradientSlot> gradient_slots(const graph::Graph& global);

// Slots of all programs of a strategy, one for each variable. A program that is traced between steps makes its own: in
// their place it gets those of earlier programs, so that a gradient is stored once, and an update finds what any
// program of the step has added.
class SharedSlots {
 public:
  // Puts the known slots in the place of a program's own, with what those hold. New ones are cut as `cuts` says for
  // their variable.
  using CutsOf = FunctionRef<AxisCuts(const Tensor& variable)>;
  void share(graph::Graph& global, Container& container, ShardedState& sharded, CutsOf cuts);
  std::vector<NamedTensor> tensors() const;

 private:
  const GradientSlot* known(const GradientSlot& fresh) const;

  std::vector<GradientSlot> slots_;
};

}  // namespace starling::dist
