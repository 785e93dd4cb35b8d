#include <algorithm>
#include <unordered_map>

#include "starling/graph/control_bodies.h"
#include "starling/graph/control_types.h"
#include "starling/graph/pass.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/control.h"

namespace starling::passes {
namespace {

// What two nodes must share to be one: reads of a variable also the number of assigns before them.
struct Computation {
  const OpDef* op;
  Attrs attrs;
  SmallVector<ValueId, 4> in;
  Device device;
  Lane lane;
  int epoch;
  friend bool operator==(const Computation&, const Computation&) = default;
};

struct Hash {
  std::size_t operator()(const Computation& c) const {
    std::size_t hash = c.attrs.hash() ^ (static_cast<std::size_t>(c.op->id) << 32) ^ static_cast<std::size_t>(c.epoch);
    for (ValueId id : c.in) hash = hash * 0x9E3779B97F4A7C15ull + static_cast<std::size_t>(id);
    return hash;
  }
};

bool mergeable(const Graph& graph, const Node& node) {
  if (is_control(*node.op)) return node.after.empty() && !has_effects(graph, node) && !draws_random(graph, node);
  if (!node.after.empty() || node.op->random || node.op->comm) return false;
  return !node.op->stateful || is_op(node, "variable") || is_op(node, "constant");
}

class Merger {
 public:
  explicit Merger(const Graph& graph) : graph_(graph), rewriter_(graph), assigned_(graph.variables.size(), 0) {}

  Graph run() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      if (is_op(node, "assign")) ++assigned_[static_cast<std::size_t>(source_index(node))];
      if (mergeable(graph_, node))
        merge(id);
      else
        rewriter_.copy(id);
    }
    return rewriter_.finish();
  }

 private:
  Computation computation(const Node& node) const {
    auto in = rewriter_.map({node.in.data(), node.in.size()});
    if (node.op->commutative) std::sort(in.begin(), in.end());
    const int epoch = is_op(node, "variable") ? assigned_[static_cast<std::size_t>(source_index(node))] : 0;
    return {node.op, node.attrs, in, node.device, node.lane, epoch};
  }

  void merge(NodeId id) {
    const Node& node = graph_.node(id);
    const auto [it, fresh] = first_.try_emplace(computation(node), id);
    if (fresh) {
      rewriter_.copy(id);
      return;
    }
    const Node& same = graph_.node(it->second);
    for (std::size_t i = 0; i < node.out.size(); ++i) rewriter_.set(node.out[i], rewriter_.map(same.out[i]));
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::vector<int> assigned_;
  std::unordered_map<Computation, NodeId, Hash> first_;
};

}  // namespace

Graph cse(const Graph& graph, const PassContext&) {
  if (graph.bodies.empty()) return Merger(graph).run();
  Graph shared = graph;
  share_equal_bodies(shared);
  return Merger(shared).run();
}

}  // namespace starling::passes
