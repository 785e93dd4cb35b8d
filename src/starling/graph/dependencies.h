#pragma once

#include <vector>

#include "starling/graph/graph.h"

namespace starling {

// For every node those that must run before it, however nodes are reordered: makers of its operands, control edges, the
// collective before a collective, the effect before an effect, and for whatever overwrites a variable all that read it
// before. All stand earlier in the graph. With CommOrder::free collectives depend on each other through values only:
// for passes that choose their order.
enum class CommOrder { kept, free };
std::vector<std::vector<NodeId>> dependencies(const Graph& graph, CommOrder order = CommOrder::kept);

// An order in which nodes may run when those with one `place` (the first of them) run as one, given as places and as
// close to the graph's own as can be. Shorter than the number of places where no order does.
std::vector<NodeId> grouped_order(const std::vector<std::vector<NodeId>>& before, const std::vector<NodeId>& place);

}  // namespace starling
