#pragma once

#include <vector>

#include "starling/graph/graph.h"
#include "starling/runtime/container.h"

namespace starling::dist {

// Where gradients of a variable are added up over several batches.
struct GradientSlot {
  Tensor variable, slot;
};

// Gradient slots among the variables of a traced program.
std::vector<GradientSlot> gradient_slots(const graph::Graph& global);

// Puts a tensor of the same type in the place of a variable.
void replace(const Tensor& old, const Tensor& by, graph::Graph& graph, Container& container);

}  // namespace starling::dist
