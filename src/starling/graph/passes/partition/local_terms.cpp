// Variables that hold each rank's own terms of a sum.
#include "starling/graph/passes/partition/partitioner.h"

namespace starling::graph {

// Sums that begin with a variable of terms, and assignments to one, take terms of what they are given. True if the node
// is one of them.
bool Partitioner::keep_terms(NodeId id) {
  const Node& node = global_.node(id);
  const Layout term = Layout::partial();
  if (is_op(node, "assign") && kept_.contains(source_index(node))) {
    distribute(id, {{term}, {}});
    return true;
  }
  if (!is_op(node, "add")) return false;
  const auto begins = [&](std::size_t i) {
    return terms_[static_cast<std::size_t>(node.in[i])] && layout_of(node.in[i]) == term;
  };
  const auto type = [&](std::size_t i) { return global_.value(node.in[i]).type; };
  if ((!begins(0) && !begins(1)) || !(type(0) == type(1))) return false;
  distribute(id, {{term, term}, {term}});
  terms_[static_cast<std::size_t>(node.out[0])] = true;
  return true;
}

// Terms of a whole value: every rank's is its share. So ranks run the same program, whatever becomes of the value.
Partitioner::Pieces Partitioner::terms_of(ValueId value, NodeId like) {
  return {times(replicate(value, like)[0], 1.0 / mesh_.parts, like)};
}

}  // namespace starling::graph
