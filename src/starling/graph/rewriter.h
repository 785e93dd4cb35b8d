#pragma once

#include <vector>

#include "starling/graph/graph.h"

namespace starling::graph {

// Builds a new graph from an old one node by node; the tool that passes are written with. Variables, constants and
// bodies are carried over.
class Rewriter {
 public:
  explicit Rewriter(const Graph& from);

  const Graph& from() const { return from_; }
  Graph& to() { return to_; }

  // New value of an old one; set() defines it, copy() does so for a node's outputs.
  ValueId map(ValueId old) const;
  bool mapped(ValueId old) const { return values_[static_cast<std::size_t>(old)] >= 0; }
  void set(ValueId old, ValueId made);
  SmallVector<ValueId, 4> map(std::span<const ValueId> old) const;

  NodeId copy(NodeId old);
  NodeId emit(const OpDef& op, std::span<const ValueId> in, const Attrs& attrs, NodeId like);
  // Redirects control edges and origins that refer to the old node to the new one.
  void stands_for(NodeId old, NodeId made) { nodes_[static_cast<std::size_t>(old)] = made; }

  Graph finish();

 private:
  void relink(Node& node, NodeId old);

  const Graph& from_;
  Graph to_;
  std::vector<ValueId> values_;
  std::vector<NodeId> nodes_;
};

}  // namespace starling::graph
