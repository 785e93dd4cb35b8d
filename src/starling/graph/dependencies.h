#pragma once

#include <vector>

#include "starling/graph/graph.h"

namespace starling::graph {

// Predecessors of every node that any reordering must respect: makers of its operands, control edges, the previous
// collective of a collective, the previous effect of an effect, and for a write to a variable all earlier reads of it.
// All stand earlier in the graph. With CommOrder::free collectives depend on each other through values only, for passes
// that choose their order.
enum class CommOrder { kept, free };
std::vector<std::vector<NodeId>> dependencies(const Graph& graph, CommOrder order = CommOrder::kept);

// Execution order when all nodes with the same `place` (the first of them) run as one: a list of places, as close to
// the graph's order as possible. Shorter than the number of places if there is no such order.
std::vector<NodeId> grouped_order(const std::vector<std::vector<NodeId>>& before, const std::vector<NodeId>& place);

}  // namespace starling::graph
