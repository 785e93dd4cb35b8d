#pragma once

#include <vector>

#include "starling/graph/graph.h"

namespace starling {

// Elementwise nodes that run as one pass over memory.
struct FusionGroup {
  std::vector<NodeId> members;    // in the order of the graph; at least two
  std::vector<ValueId> operands;  // read from outside, in the order of their first use
  std::vector<ValueId> outputs;   // read outside, or outputs of the graph
};

struct FusionGroups {
  std::vector<FusionGroup> groups;
  std::vector<int> group_of;  // of every node; -1: stays by itself
};

// Joins each elementwise node with those that make its operands, while all of a group have one shape, one float dtype,
// one device and lane, no bool enters or leaves, and no path leads out of the group and back in.
FusionGroups fusion_groups(const Graph& graph, const std::vector<std::vector<NodeId>>& before);

}  // namespace starling
