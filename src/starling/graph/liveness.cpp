#include "starling/graph/liveness.h"

#include <algorithm>
#include <numeric>

#include "starling/tensor/bytes.h"

namespace starling::graph {

void Liveness::find_roots(const Graph& graph) {
  root_.resize(graph.values().size());
  std::iota(root_.begin(), root_.end(), 0);
  last_use_.assign(graph.values().size(), 0);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (node.op->view) root_[static_cast<std::size_t>(node.out[0])] = root(node.in[0]);
    for (ValueId in : node.in) last_use_[static_cast<std::size_t>(root(in))] = id;
    for (ValueId out : node.out) last_use_[static_cast<std::size_t>(root(out))] = id;
  }
  for (ValueId out : graph.outputs) last_use_[static_cast<std::size_t>(root(out))] = graph.size();
}

// Memory of an operand that dies here and that the op may overwrite.
int Liveness::reused(const Graph& graph, const Node& node, std::size_t output, NodeId id) const {
  if (node.op->inplace < 0) return -1;
  const TensorType& type = graph.value(node.out[output]).type;
  const auto wanted = static_cast<std::size_t>(node.op->inplace) + output;
  for (std::size_t i = 0; i < node.in.size(); ++i) {
    if (i != wanted && !node.op->elementwise()) continue;
    const int life = life_of(root(node.in[i]));
    if (life < 0 || lives_[static_cast<std::size_t>(life)].last != id) continue;
    if (lives_[static_cast<std::size_t>(life)].bytes == bytes_of(type)) return life;
  }
  return -1;
}

Liveness::Liveness(const Graph& graph) : life_(graph.values().size(), -1) {
  find_roots(graph);
  std::vector<bool> kept_elsewhere(graph.values().size());
  for (ValueId out : graph.outputs) kept_elsewhere[static_cast<std::size_t>(root(out))] = true;
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    // Assigned values are written directly into the variable.
    if (is_op(node, "assign")) kept_elsewhere[static_cast<std::size_t>(root(node.in[0]))] = true;
  }
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (is_source(node)) continue;
    for (std::size_t i = 0; i < node.out.size(); ++i) {
      const auto out = static_cast<std::size_t>(node.out[i]);
      if (root_[out] != node.out[i]) {
        life_[out] = life_of(root_[out]);
        continue;
      }
      if (kept_elsewhere[out]) continue;
      life_[out] = reused(graph, node, i, id);
      if (life_[out] < 0) {
        life_[out] = static_cast<int>(lives_.size());
        lives_.push_back({bytes_of(graph.value(node.out[i]).type), id, id});
      }
      Life& life = lives_[static_cast<std::size_t>(life_[out])];
      life.last = std::max(life.last, last_use_[out]);
    }
  }
  std::vector<std::ptrdiff_t> change(graph.nodes().size() + 2);
  for (const auto& life : lives_) {
    change[static_cast<std::size_t>(life.first)] += static_cast<std::ptrdiff_t>(life.bytes);
    change[static_cast<std::size_t>(life.last) + 1] -= static_cast<std::ptrdiff_t>(life.bytes);
  }
  std::ptrdiff_t live = 0;
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) bytes_.push_back(static_cast<std::size_t>(live += change[i]));
  if (!bytes_.empty()) peak_ = static_cast<NodeId>(std::max_element(bytes_.begin(), bytes_.end()) - bytes_.begin());
}

}  // namespace starling::graph
