#pragma once

#include <vector>

#include "starling/graph/graph.h"

namespace starling {

// Builds a new graph from an old one node by node: what passes are written with. Variables, constants and bodies are
// carried over.
class Rewriter {
 public:
  explicit Rewriter(const Graph& from);

  const Graph& from() const { return from_; }
  Graph& to() { return to_; }

  // The new value that stands for an old one; set() names it, copy() does so for a node's outputs.
  ValueId map(ValueId old) const;
  bool mapped(ValueId old) const { return values_[static_cast<std::size_t>(old)] >= 0; }
  void set(ValueId old, ValueId made);
  SmallVector<ValueId, 4> map(std::span<const ValueId> old) const;

  NodeId copy(NodeId old);
  NodeId emit(const OpDef& op, std::span<const ValueId> in, const Attrs& attrs, NodeId like);
  // Control edges and origins of old nodes that were replaced point to what was named here.
  void stands_for(NodeId old, NodeId made) { nodes_[static_cast<std::size_t>(old)] = made; }

  Graph finish();

 private:
  void relink(Node& node, NodeId old);

  const Graph& from_;
  Graph to_;
  std::vector<ValueId> values_;
  std::vector<NodeId> nodes_;
};

}  // namespace starling
