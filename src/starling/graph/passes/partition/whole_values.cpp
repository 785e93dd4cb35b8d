// Values that every rank computes whole.
#include "starling/graph/passes/partition/partitioner.h"

namespace starling::graph {

// A result that is marked replicated in the global program, where values have no layouts of their own, is computed from
// gathered operands. True if the node's is.
bool Partitioner::compute_whole(NodeId id) {
  const Node& node = global_.node(id);
  if (node.out.empty()) return false;
  const Layouts& marked = global_.value(node.out[0]).layouts;
  if (marked.empty() || !marked[0].is_replicate()) return false;
  ShardRule rule;
  for (std::size_t i = 0; i < node.in.size(); ++i) rule.in.push_back(Layout::replicate());
  for (std::size_t i = 0; i < node.out.size(); ++i) rule.out.push_back(Layout::replicate());
  distribute(id, rule);
  return true;
}

}  // namespace starling::graph
