#pragma once

#include <vector>

#include "starling/graph/placement/placement.h"

namespace starling {

// The part of a placed graph that one device runs, in its order. Sends stand right after what makes their operand.
struct GraphPart {
  Graph graph;
  std::vector<int> inputs;     // of the whole graph: which of them are this part's, in order
  std::vector<int> variables;  // likewise
};

// One part a device. Exactly one send and recv for every value and device it goes to; the results are those of the part
// of `home`, in order. The parts are verified.
std::vector<GraphPart> cut(const Graph& graph, const DevicePlacement& placement, const PlacementOptions& options,
                           int home);

}  // namespace starling
