// Variables that hold each rank's own terms of a sum.
#include "starling/graph/passes/partition/partitioner.h"
#include "starling/ops/def/creation.h"
#include "starling/ops/def/registry.h"

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

// Terms of a whole value: the first rank's is all of it.
Partitioner::Pieces Partitioner::terms_of(ValueId value, NodeId like) {
  const Pieces whole = replicate(value, like);
  if (mesh_.first == 0) return whole;
  const TensorType& type = global_.value(value).type;
  const op::FullAttrs nothing{.shape = type.shape, .value = 0, .dtype = type.dtype};
  const NodeId zeros = rewriter_.emit(find_op("full"), {}, nothing, like);
  // Collectives that made the whole value are everybody's, also where nothing else reads it.
  rewriter_.to().node(zeros).after.push_back(rewriter_.to().value(whole[0]).node);
  return {rewriter_.to().node(zeros).out[0]};
}

}  // namespace starling::graph
