#include "starling/graph/rewriter.h"

#include "starling/base/error.h"

namespace starling::graph {

Rewriter::Rewriter(const Graph& from)
    : from_(from), values_(from.values().size(), -1), nodes_(from.nodes().size(), -1) {
  to_.variables = from.variables;
  to_.constants = from.constants;
  to_.bodies = from.bodies;
}

ValueId Rewriter::map(ValueId old) const {
  const ValueId made = values_[static_cast<std::size_t>(old)];
  check(made >= 0, "[rewrite] expected value %{} to have been rewritten, got none ({} made it)", old,
        from_.maker(old).op->name);
  return made;
}

SmallVector<ValueId, 4> Rewriter::map(std::span<const ValueId> old) const {
  SmallVector<ValueId, 4> made;
  for (ValueId id : old) made.push_back(map(id));
  return made;
}

void Rewriter::set(ValueId old, ValueId made) {
  values_[static_cast<std::size_t>(old)] = made;
  nodes_[static_cast<std::size_t>(from_.value(old).node)] = to_.value(made).node;
}

void Rewriter::relink(Node& node, NodeId old) {
  const Node& before = from_.node(old);
  node.origin = before.origin >= 0 ? nodes_[static_cast<std::size_t>(before.origin)] : -1;
  node.after.clear();
  for (NodeId id : before.after) {
    const NodeId made = nodes_[static_cast<std::size_t>(id)];
    if (made >= 0) node.after.push_back(made);
  }
}

NodeId Rewriter::emit(const OpDef& op, std::span<const ValueId> in, const Attrs& attrs, NodeId like) {
  const NodeId made = to_.add(op, in, attrs, from_.node(like));
  relink(to_.node(made), like);
  return made;
}

NodeId Rewriter::copy(NodeId old) {
  const Node& before = from_.node(old);
  const auto in = map({before.in.data(), before.in.size()});
  const NodeId made = emit(*before.op, {in.data(), in.size()}, before.attrs, old);
  nodes_[static_cast<std::size_t>(old)] = made;
  const Node& node = to_.node(made);
  for (std::size_t i = 0; i < before.out.size(); ++i) {
    values_[static_cast<std::size_t>(before.out[i])] = node.out[i];
    to_.value(node.out[i]).layouts = from_.value(before.out[i]).layouts;
    to_.value(node.out[i]).name = from_.value(before.out[i]).name;
  }
  return made;
}

Graph Rewriter::finish() {
  for (ValueId id : from_.inputs) to_.inputs.push_back(mapped(id) ? map(id) : -1);
  for (ValueId id : from_.outputs) to_.outputs.push_back(map(id));
  for (auto& variable : to_.variables) {
    variable.init = variable.init >= 0 && mapped(variable.init) ? map(variable.init) : -1;
  }
  for (const auto& [name, nodes] : from_.targets) {
    for (NodeId id : nodes) {
      const NodeId made = nodes_[static_cast<std::size_t>(id)];
      if (made >= 0) to_.targets[name].push_back(made);
    }
  }
  return std::move(to_);
}

}  // namespace starling::graph
