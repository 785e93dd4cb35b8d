#pragma once

#include <span>

#include "starling/graph/edge.h"

namespace starling::graph {

// Feeds, fetches and targets of a run, as values and nodes of a graph.
struct Extraction {
  std::vector<ValueId> feeds;  // become the inputs, in this order; their makers are not needed
  std::vector<ValueId> fetches;
  std::vector<NodeId> targets;
};

// Subgraph that yields the fetches and runs the targets: nodes in their order, the variables and constants they use.
// Control edges pull in their nodes; a read of a variable does not pull in earlier assigns. Throws naming the
// placeholder that is needed and not fed.
Graph extract(const Graph& graph, const Extraction& wanted, const Edges& edges);

// True if a value is made of constants alone, without state, arguments and effects.
bool stands_alone(const Graph& graph, ValueId value);

// Initial value of a variable, as a graph without inputs. Reads of other variables are replaced by their initial
// values, or by a copy of their current tensor.
Graph initial_value(const Graph& graph, ValueId value);

}  // namespace starling::graph
