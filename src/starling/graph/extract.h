#pragma once

#include <span>

#include "starling/graph/edge.h"

namespace starling {

// What a run is given and asked for, as values and nodes of a graph.
struct Extraction {
  std::vector<ValueId> feeds;  // become the inputs, in this order; whatever would have made them is not needed
  std::vector<ValueId> fetches;
  std::vector<NodeId> targets;
};

// The part of a graph that yields the fetches and runs the targets, and nothing else: nodes in their order, the
// variables and constants they use. Control edges pull in what they name; a read of a variable does not pull in the
// assigns before it. Throws naming the placeholder that is needed and not fed.
Graph extract(const Graph& graph, const Extraction& wanted, const Edges& edges);

// Whether a value is made of constants alone, without state, arguments and effects.
bool stands_alone(const Graph& graph, ValueId value);

// The value as a graph of its own without inputs: what a variable begins with. Reads of other variables are replaced by
// what those begin with, or by a copy of their tensor as it is now.
Graph initial_value(const Graph& graph, ValueId value);

}  // namespace starling
