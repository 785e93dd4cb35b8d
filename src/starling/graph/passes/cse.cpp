#include <algorithm>
#include <cmath>
#include <cstring>
#include <unordered_map>

#include "starling/graph/control/control_bodies.h"
#include "starling/graph/control/control_types.h"
#include "starling/graph/pass.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/def/attrs/control.h"
#include "starling/tensor/bytes.h"

namespace starling::graph::passes {
namespace {

// Larger constants are equal only if they are the same tensor.
constexpr std::size_t kMostCompared = 4096;

// Key of equal nodes; for reads of a variable it includes the number of assigns before them.
struct Computation {
  const OpDef* op;
  Attrs attrs;
  SmallVector<ValueId, 4> in;
  Device device;
  Lane lane;
  int epoch;
};

// True if equal numbers also agree in sign: 0 and -0 differ.
bool same_signs(const Attrs& a, const Attrs& b) {
  for (const auto& field : a.type().fields) {
    if (field.kind != AttrKind::real) continue;
    if (std::signbit(a.get<double>(field)) != std::signbit(b.get<double>(field))) return false;
  }
  return true;
}

bool operator==(const Computation& a, const Computation& b) {
  return a.op == b.op && a.in == b.in && a.device == b.device && a.lane == b.lane && a.epoch == b.epoch &&
         a.attrs == b.attrs && same_signs(a.attrs, b.attrs);
}

bool same_bytes(const Tensor& a, const Tensor& b) {
  if (same(a, b)) return true;
  const auto bytes = bytes_of(a);
  if (!(a.type() == b.type()) || a.device() != b.device() || a.device().kind != DeviceKind::cpu) return false;
  if (bytes > kMostCompared || !a.contiguous() || !b.contiguous()) return false;
  return bytes == 0 || std::memcmp(a.raw(), b.raw(), bytes) == 0;
}

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
    Attrs attrs = node.attrs;
    if (is_op(node, "constant")) attrs.get<std::int64_t>(*attrs.find("index")) = first_like(source_index(node));
    return {node.op, attrs, in, node.device, node.lane, epoch};
  }

  // First constant with the same contents.
  std::int64_t first_like(std::int64_t index) const {
    const auto& constants = graph_.constants;
    for (std::int64_t i = 0; i < index; ++i) {
      if (same_bytes(constants[static_cast<std::size_t>(i)], constants[static_cast<std::size_t>(index)])) return i;
    }
    return index;
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

Graph cse(const Graph& graph, const PassContext&) {
  if (graph.bodies.empty()) return Merger(graph).run();
  Graph shared = graph;
  share_equal_bodies(shared);
  return Merger(shared).run();
}

}  // namespace
}  // namespace starling::graph::passes

namespace starling::graph {

void register_pass_cse(PassTable& table) {
  table.add({.name = "cse", .doc = "merge equal nodes", .order = 800, .run = passes::cse});
}

}  // namespace starling::graph
