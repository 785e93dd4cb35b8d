// Variables that hold each rank's own terms of a sum.
#include <algorithm>

#include "starling/graph/passes/partition/partitioner.h"
#include "starling/ops/def/attrs/slice.h"

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

// Terms of a value. Of a whole one every rank's is its share, where numbers have shares, or the first rank's is all of
// it; so ranks run the same program, whatever becomes of the value. Of pieces every rank's is its own among zeros.
Partitioner::Pieces Partitioner::terms_of(ValueId value, NodeId like) {
  const auto at = static_cast<std::size_t>(value);
  if (layout_of(value).is_split() && whole_[at].empty() && !state_[at] && !mesh_.ordered)
    return among_zeros(value, like);
  const ValueId all = replicate(value, like)[0];
  if (is_float(global_.value(value).type.dtype)) return {times(all, 1.0 / mesh_.parts, like)};
  Pieces terms;
  for (int k = 0; k < mesh_.count; ++k) terms.push_back(times(all, mesh_.first + k == 0 ? 1.0 : 0.0, like));
  return terms;
}

Partitioner::Pieces Partitioner::among_zeros(ValueId value, NodeId like) {
  const Shape& shape = global_.value(value).type.shape;
  const int dim = layout_of(value).dim;
  const std::int64_t in_blocks = blocks(value), block = shape[dim] / std::max<std::int64_t>(in_blocks, 1);
  const Piece own = piece_of(block, mesh_.first, mesh_.parts);
  const ValueId from = with_first(pieces(value)[0], dim, in_blocks, like);
  Shape whole = rewriter_.to().value(from).type.shape;
  whole[0] = block;
  const op::SliceBackwardAttrs attrs{whole, 0, own.begin, own.begin + own.size, 1};
  return {with_first_back(emit("slice_backward", {from}, attrs, like), shape, dim, in_blocks, like)};
}

}  // namespace starling::graph
