#pragma once

#include <vector>

#include "starling/graph/graph.h"

namespace starling::graph {

// Predecessors of every node that any reordering must respect: makers of its operands, control edges, the previous
// communication of a collective or message in its group of ranks, the previous effect of an effect, and for a write to
// a variable all earlier reads of it. All stand earlier in the graph. Communication of different groups is independent.
// With CommOrder::free collectives depend on each other through values only, for passes that choose their order;
// messages of a group keep theirs.
enum class CommOrder { kept, free };
std::vector<std::vector<NodeId>> dependencies(const Graph& graph, CommOrder order = CommOrder::kept);

// Groups of ranks that a graph communicates in, by name, in the order in which it first does.
std::vector<Symbol> comm_groups(const Graph& graph);

// Round in which each node can run: the most communications on a path to it, itself included. In one group of ranks it
// is the number of the last communication it waits for. Ranks that put the same program into different orders agree on
// the rounds if each group keeps its order: what runs round after round cannot wait in a circle.
std::vector<int> comm_rounds(const Graph& graph, const std::vector<std::vector<NodeId>>& before);

// Execution order when all nodes with the same `place` (the first of them) run as one: a list of places, as close to
// the graph's order as possible. Shorter than the number of places if there is no such order.
std::vector<NodeId> grouped_order(const std::vector<std::vector<NodeId>>& before, const std::vector<NodeId>& place);

}  // namespace starling::graph
