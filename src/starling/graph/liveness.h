#pragma once

#include <vector>

#include "starling/graph/graph.h"

namespace starling {

// A piece of memory that a program needs from the node `first` to the node `last`, both included. It holds a value and
// its views, and after it what overwrites it in place.
struct Life {
  std::size_t bytes = 0;
  NodeId first = 0;
  NodeId last = 0;
};

// What a graph keeps in memory while its nodes run in the order they stand: an estimate by the rules of the runtime,
// without scratch and copies. Inputs, variables, constants and results handed out are not counted.
class Liveness {
 public:
  explicit Liveness(const Graph& graph);

  const std::vector<Life>& lives() const { return lives_; }
  int life_of(ValueId id) const { return life_[static_cast<std::size_t>(id)]; }   // index into lives(), -1: not counted
  ValueId root(ValueId id) const { return root_[static_cast<std::size_t>(id)]; }  // whose memory it shares as a view
  // Bytes in use while each node runs, and the node where they are the most.
  const std::vector<std::size_t>& bytes() const { return bytes_; }
  NodeId peak() const { return peak_; }
  std::size_t peak_bytes() const { return bytes_.empty() ? 0 : bytes_[static_cast<std::size_t>(peak_)]; }

 private:
  void find_roots(const Graph& graph);
  int reused(const Graph& graph, const Node& node, std::size_t output, NodeId id) const;

  std::vector<ValueId> root_;
  std::vector<NodeId> last_use_;  // of roots
  std::vector<int> life_;
  std::vector<Life> lives_;
  std::vector<std::size_t> bytes_;
  NodeId peak_ = 0;
};

std::size_t bytes_of(const TensorType& type);

}  // namespace starling
