#pragma once

#include <vector>

#include "starling/graph/graph.h"

namespace starling {

// For every node those that must run before it, however nodes are reordered: makers of its operands, control edges, the
// collective before a collective, the effect before an effect, and for whatever overwrites a variable all that read it
// before. All stand earlier in the graph.
std::vector<std::vector<NodeId>> dependencies(const Graph& graph);

}  // namespace starling
