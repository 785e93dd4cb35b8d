#pragma once

#include <optional>

#include "starling/graph/graph.h"

namespace starling::graph {

// Queries that rewrites make about values.

// Common value of all elements, as the dtype represents it: made by `full`, a constant of one element, or a reshape or
// broadcast of these. NaN gives nullopt.
std::optional<double> uniform_value(const Graph& graph, ValueId id);

// True for nodes that only compute: no state, no randomness, no communication, no control edges.
bool is_pure(const Node& node);

// True if a reader of the value may move from one place to a later one: not past a write to a variable whose memory the
// value, or its base as a view, occupies.
bool may_be_read_later(const Graph& graph, ValueId id, NodeId from, NodeId to);

// Readers of the values of a graph.
class Uses {
 public:
  explicit Uses(const Graph& graph);
  const std::vector<NodeId>& of(ValueId id) const { return users_[static_cast<std::size_t>(id)]; }
  bool is_output(ValueId id) const { return is_output_[static_cast<std::size_t>(id)]; }
  // The only reader of the value, if it reads it once, on the same device and lane and without control edges; else -1,
  // as for outputs.
  NodeId only(ValueId id) const;
  // True if every reader is in the set.
  bool only_by(ValueId id, std::span<const NodeId> readers) const;

 private:
  const Graph& graph_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<bool> is_output_;
};

}  // namespace starling::graph
