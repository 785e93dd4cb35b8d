#pragma once

#include <vector>

#include "starling/graph/graph.h"

namespace starling {

// Elementwise nodes, broadcasts and reductions that run as one pass over memory.
struct FusionGroup {
  std::vector<NodeId> members;    // in the order of the graph; at least two
  std::vector<ValueId> operands;  // read from outside, in the order of their first use
  std::vector<ValueId> outputs;   // read outside, or outputs of the graph
  Shape whole{};                  // the shape of what is not reduced
  Shape rows{};                   // the axes of reductions that are read inside; empty: none is
  // Which axis of the whole each dimension of a member's result is. Reduced axes may be there as sizes of 1 or not.
  std::vector<Shape> places{};
};

struct FusionGroups {
  std::vector<FusionGroup> groups;
  std::vector<int> group_of;  // of every node; -1: stays by itself
};

// Joins each elementwise node with those that make its operands, and each reduction with what it reduces and with what
// is made of its result, while
//  - a group has one whole shape, one float dtype, one device and lane, and no bool enters or leaves it;
//  - reductions whose results are read inside are all over the same last axes, short enough for a row to stay in the
//    cache, which no operand is broadcast along in part;
//  - other reductions end the chain, with few enough totals to be kept by every thread;
//  - no path leads out of the group and back in.
FusionGroups fusion_groups(const Graph& graph, const std::vector<std::vector<NodeId>>& before);

}  // namespace starling
