#pragma once

#include <vector>

#include "starling/graph/graph.h"

namespace starling {

// An order in which nodes may run and the lane of each node.
struct BranchSchedule {
  std::vector<NodeId> order;
  std::vector<Lane> lane;
};

// Spreads independent nodes over compute lanes: the longest chain of work first, each node on the lane where it would
// end soonest by a rough count of its arithmetic and bytes, handing over between lanes costing a few microseconds.
// `before`: what must run before each node. Collectives keep the comm lane, effects the first compute lane.
BranchSchedule schedule_branches(const Graph& graph, const std::vector<std::vector<NodeId>>& before, int branches);

}  // namespace starling
