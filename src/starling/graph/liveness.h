#pragma once

#include <vector>

#include "starling/graph/graph.h"

namespace starling::graph {

// Lifetime of a piece of memory: needed from node `first` to node `last`, both included. It holds a value and its
// views, then the values that overwrite it in place.
struct Life {
  std::size_t bytes = 0;
  NodeId first = 0;
  NodeId last = 0;
};

// Estimated memory use of a graph run in its order, by the rules of the runtime but without scratch and copies. Inputs,
// variables, constants and returned results are not counted.
class Liveness {
 public:
  explicit Liveness(const Graph& graph);

  const std::vector<Life>& lives() const { return lives_; }
  int life_of(ValueId id) const { return life_[static_cast<std::size_t>(id)]; }   // index into lives(), -1: not counted
  ValueId root(ValueId id) const { return root_[static_cast<std::size_t>(id)]; }  // owner of its memory
  // Bytes in use while each node runs, and the node with the maximum.
  const std::vector<std::size_t>& bytes() const { return bytes_; }
  NodeId peak() const { return peak_; }
  std::size_t peak_bytes() const { return bytes_.empty() ? 0 : bytes_[static_cast<std::size_t>(peak_)]; }

 private:
  void find_roots(const Graph& graph);
  int reused(const Graph& graph, const Node& node, std::size_t output, NodeId id) const;

  std::vector<ValueId> root_;
  std::vector<NodeId> last_use_;  // by root
  std::vector<int> life_;
  std::vector<Life> lives_;
  std::vector<std::size_t> bytes_;
  NodeId peak_ = 0;
};

}  // namespace starling::graph
