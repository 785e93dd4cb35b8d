#pragma once

#include <optional>
#include <vector>

#include "starling/dist/codec/codec.h"
#include "starling/graph/graph.h"

namespace starling::dist {

// Gradient that an optimizer's update reads in a program, at the place where ranks exchange it.
struct UsedGradient {
  graph::ValueId value = -1;  // of f32: as backward made it, times plain numbers
  int variable = -1;          // the parameter
  graph::ValueId skip = -1;   // bool[]: true in a step that leaves the parameter alone; -1: none does
};

// All dense gradients of f32 that updates of variables read, each value once, in the order of the updates.
std::vector<UsedGradient> find_gradients(const graph::Graph& graph);

// Factors of a gradient that a product of two matrices makes, with a rank's share of their rows; nothing for others.
std::optional<FactorShape> factor_shape(const graph::Graph& graph, graph::ValueId gradient, int ranks);

}  // namespace starling::dist
