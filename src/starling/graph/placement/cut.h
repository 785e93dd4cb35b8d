#pragma once

#include <vector>

#include "starling/graph/placement/placement.h"

namespace starling::graph {

// Part of a placed graph that one device runs, in execution order. A send directly follows the node that makes its
// operand.
struct GraphPart {
  Graph graph;
  std::vector<int> inputs;     // indices of the whole graph's inputs that are this part's, in order
  std::vector<int> variables;  // as above
};

// Cuts a placed graph into one part per device. Exactly one send and recv for every value and receiving device; the
// results belong to the part of `home`, in order. The parts are verified.
std::vector<GraphPart> cut(const Graph& graph, const DevicePlacement& placement, const PlacementOptions& options,
                           int home);

}  // namespace starling::graph
