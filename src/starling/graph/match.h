#pragma once

#include <optional>

#include "starling/graph/graph.h"

namespace starling {

// What rewrites ask about the values of a graph.

// The number a value has in all its elements, as its dtype holds it: made by `full`, a constant of one element, or a
// reshape or broadcast of such. NaN is no number here.
std::optional<double> uniform_value(const Graph& graph, ValueId id);

// Nodes that only compute: no state, no randomness, no communication, no control edges.
bool is_pure(const Node& node);

// Whether a node that reads the value may move from one place to a later one: not past what overwrites a variable that
// the value, or what it is a view of, lies in.
bool may_be_read_later(const Graph& graph, ValueId id, NodeId from, NodeId to);

// Who reads the values of a graph.
class Uses {
 public:
  explicit Uses(const Graph& graph);
  const std::vector<NodeId>& of(ValueId id) const { return users_[static_cast<std::size_t>(id)]; }
  bool is_output(ValueId id) const { return is_output_[static_cast<std::size_t>(id)]; }
  // The node that alone reads the value, once, and in the same place; -1: others do, or the caller wants it.
  NodeId only(ValueId id) const;
  // Whether every reader is in the set.
  bool only_by(ValueId id, std::span<const NodeId> readers) const;

 private:
  const Graph& graph_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> is_output_;
};

}  // namespace starling
