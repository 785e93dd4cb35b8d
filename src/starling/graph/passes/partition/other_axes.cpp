// Collectives over other axes of the mesh than the one that rows are split over.
#include "starling/graph/passes/partition/partitioner.h"
#include "starling/ops/def/attrs/comm.h"
#include "starling/ops/def/sharding/halo.h"
#include "starling/ops/def/sharding/resplit.h"

namespace starling::graph {
namespace {

ReduceOp reduction(const Node& node) {
  const AttrField* field = node.attrs.find("reduce");
  return field ? node.attrs.get<ReduceOp>(*field) : ReduceOp::sum;
}

// True if the op of a sum of values is the sum of the op of each.
bool is_linear(const Node& node) {
  if (is_op(node, "halo") && node.attrs.as<op::HaloAttrs>().fill != 0) return false;
  return reduction(node) == ReduceOp::sum || reduction(node) == ReduceOp::mean;
}

// Dimensions along which a piece along this axis would not be a piece of what the collective gives.
bool moves(const Node& node, int dim) {
  if (is_op(node, "resplit")) {
    const auto& a = node.attrs.as<op::ResplitAttrs>();
    return dim == a.from || dim == a.to;
  }
  if (node.op->attrs == &attr_type<op::HaloAttrs>()) return dim == node.attrs.as<op::HaloAttrs>().dim;
  return node.op->attrs == &attr_type<op::PiecesAttrs>() && dim == 0;
}

bool is_message(const Node& node) { return is_op(node, "send_to") || is_op(node, "recv_from"); }

// Layout in which a collective of another axis takes an operand and gives its result. Ranks of a group of that axis
// have the same place along this one, so they hold the same pieces: elementwise reductions take any split, ops that
// move rows any but of rows, and exchanges of pieces any but along their dimensions.
Layout taken(const Node& node, const Layout& now) {
  if (is_message(node)) return Layout::replicate();
  if (now.is_split()) return moves(node, now.dim) ? Layout::replicate() : now;
  if (now == Layout::partial()) return is_linear(node) ? now : Layout::replicate();
  return Layout::replicate();
}

}  // namespace

// The same for rounds, which are not of ranks: an exchange of the rows themselves takes those of all rounds.
ShardRule Partitioner::across_rounds(const Node& node) const {
  ShardRule rule;
  for (ValueId in : node.in) rule.in.push_back(taken(node, layouts_[static_cast<std::size_t>(in)]));
  for (std::size_t i = 0; i < node.out.size(); ++i)
    rule.out.push_back(i < node.in.size() ? rule.in[i] : Layout::replicate());
  return rule;
}

bool Partitioner::across_other_axis(NodeId id) {
  const Node& node = global_.node(id);
  const Symbol group = comm_group(node);
  if (!node.op->comm || group.empty() || group == mesh_.group) return false;
  ShardRule rule;
  for (ValueId in : node.in) rule.in.push_back(taken(node, layout_of(in)));
  for (std::size_t i = 0; i < node.out.size(); ++i)
    rule.out.push_back(i < node.in.size() ? rule.in[i] : Layout::replicate());
  note_fallback(id, rule);
  distribute(id, rule);
  return true;
}

}  // namespace starling::graph
