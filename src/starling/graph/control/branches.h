#pragma once

#include <vector>

#include "starling/graph/graph.h"

namespace starling::graph {

// Execution order of nodes, and the lane of each node.
struct BranchSchedule {
  std::vector<NodeId> order;
  std::vector<Lane> lane;
};

// List scheduling of independent nodes over compute lanes: the longest chain of work first, each node on the lane where
// it would end soonest by an estimate from its FLOPs and bytes; a hand-over between lanes costs a few microseconds.
// `before`: nodes that must run before each node. Collectives stay on the comm lane, effects on the first compute lane.
BranchSchedule schedule_branches(const Graph& graph, const std::vector<std::vector<NodeId>>& before, int branches);

}  // namespace starling::graph
