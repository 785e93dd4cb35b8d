#pragma once

#include <vector>

#include "starling/graph/graph.h"

namespace starling::graph {

// Elementwise nodes, broadcasts and reductions that run as one kernel, in one pass over memory.
struct FusionGroup {
  std::vector<NodeId> members;    // in graph order; at least two
  std::vector<ValueId> operands;  // inputs of the group, in order of first use
  std::vector<ValueId> outputs;   // read outside the group, or outputs of the graph
  Shape whole{};                  // shape of the unreduced values
  Shape rows{};                   // axes of reductions that are read inside; empty: none
  // By member: the axis of `whole` for each dimension of its result. Reduced axes may be present with size 1 or absent.
  std::vector<Shape> places{};
};

struct FusionGroups {
  std::vector<FusionGroup> groups;
  std::vector<int> group_of;  // by node; -1: not fused
};

// Joins each elementwise node with the makers of its operands, and each reduction with its operand and the readers of
// its result, while
//  - a group has one whole shape, one float dtype, one device and lane, and no bool enters or leaves it;
//  - reductions whose results are read inside are all over the same last axes, short enough for a row to stay in the
//    cache, and no operand is broadcast along only some of those axes;
//  - other reductions end the chain, with few enough totals for every thread to keep its own;
//  - no path leads out of the group and back in;
//  - where ranks form several groups, all members run in one round of communication, so that no group waits for
//  another.
FusionGroups fusion_groups(const Graph& graph, const std::vector<std::vector<NodeId>>& before);

}  // namespace starling::graph
