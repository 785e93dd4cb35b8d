#include <algorithm>

#include "starling/graph/pass.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/registry.h"
#include "starling/ops/state.h"

namespace starling::passes {
namespace {

constexpr std::size_t kW = 0, kV = 1, kG = 2, kLr = 3;

// Gradients wait for the update they were joined into: a group holds no more of them than this. Beyond, a kernel has
// work enough for all threads, and an update by itself runs as soon as its gradient is there.
constexpr std::size_t kMostBytes = 1 << 20;

using Group = std::vector<NodeId>;

std::size_t gradient_bytes(const Graph& graph, NodeId update) {
  const TensorType& type = graph.value(graph.node(update).in[kG]).type;
  return static_cast<std::size_t>(type.shape.numel()) * size_of(type.dtype);
}

std::size_t gradient_bytes(const Graph& graph, const Group& group) {
  std::size_t bytes = 0;
  for (NodeId id : group) bytes += gradient_bytes(graph, id);
  return bytes;
}

bool alike(const Graph& graph, const Node& a, const Node& b) {
  return a.attrs == b.attrs && a.device == b.device && a.lane == b.lane && a.in[kLr] == b.in[kLr] &&
         graph.value(a.in[kW]).type.dtype == graph.value(b.in[kW]).type.dtype;
}

// Whether one of `nodes` needs a result of one of the group, through data or control edges. Both ascend.
bool depends_on(const Graph& graph, const Group& nodes, const Group& group) {
  if (nodes.empty() || group.empty()) return false;
  std::vector<bool> reached(graph.nodes().size());
  for (NodeId id : group) reached[static_cast<std::size_t>(id)] = true;
  const auto is_reached = [&](NodeId id) { return reached[static_cast<std::size_t>(id)]; };
  for (NodeId id = group.front() + 1; id <= nodes.back(); ++id) {
    const Node& n = graph.node(id);
    const bool hit =
        std::any_of(n.in.begin(), n.in.end(), [&](ValueId v) { return is_reached(graph.value(v).node); }) ||
        std::any_of(n.after.begin(), n.after.end(), is_reached);
    if (hit && std::binary_search(nodes.begin(), nodes.end(), id)) return true;
    if (hit) reached[static_cast<std::size_t>(id)] = true;
  }
  return false;
}

// Everything that reads the update's results moves behind the joined update, which stands at `last`. That is only
// possible when nothing up to there reads them but assigns, and nobody in between looks at the variables those assign.
bool may_wait(const Graph& graph, NodeId update, NodeId last) {
  std::vector<std::int64_t> assigned;
  std::vector<NodeId> moved{update};
  for (NodeId id = update + 1; id < last; ++id) {
    const Node& node = graph.node(id);
    const auto waits = [&](NodeId other) { return std::find(moved.begin(), moved.end(), other) != moved.end(); };
    if (std::any_of(node.after.begin(), node.after.end(), waits)) return false;
    const bool reads =
        std::any_of(node.in.begin(), node.in.end(), [&](ValueId v) { return graph.value(v).node == update; });
    if (reads && !(is_op(node, "assign") && node.after.empty())) return false;
    const bool on_variable = is_op(node, "assign") || is_op(node, "variable");
    if (on_variable && std::find(assigned.begin(), assigned.end(), source_index(node)) != assigned.end()) return false;
    if (!reads) continue;
    assigned.push_back(source_index(node));
    moved.push_back(id);
  }
  return true;
}

// The value whose memory this one lies in.
ValueId root(const Graph& graph, ValueId id) {
  while (graph.maker(id).op->view) id = graph.maker(id).in[0];
  return id;
}

// Whether one of two updates reads what the other overwrites.
bool share_state(const Graph& graph, const Node& a, const Node& b) {
  const auto reads = [&](const Node& reader, ValueId written) {
    const auto is_it = [&](ValueId id) { return root(graph, id) == root(graph, written); };
    return std::any_of(reader.in.begin(), reader.in.end(), is_it);
  };
  return reads(a, b.in[kW]) || reads(a, b.in[kV]) || reads(b, a.in[kW]) || reads(b, a.in[kV]);
}

// In the order in which their gradients are made, so that neighbours are joined.
std::vector<NodeId> updates(const Graph& graph) {
  std::vector<NodeId> found;
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (is_op(node, "sgd_update") && node.after.empty() && gradient_bytes(graph, id) < kMostBytes) found.push_back(id);
  }
  const auto made = [&](NodeId id) { return graph.value(graph.node(id).in[kG]).node; };
  std::stable_sort(found.begin(), found.end(), [&](NodeId a, NodeId b) { return made(a) < made(b); });
  return found;
}

bool independent(const Graph& graph, NodeId id, const Group& group) {
  const auto middle = std::lower_bound(group.begin(), group.end(), id);
  return !depends_on(graph, {id}, Group(group.begin(), middle)) && !depends_on(graph, Group(middle, group.end()), {id});
}

std::vector<Group> candidates(const Graph& graph) {
  std::vector<Group> groups;
  for (NodeId id : updates(graph)) {
    const Node& node = graph.node(id);
    const auto fits = [&](const Group& group) {
      const auto shares = [&](NodeId other) { return share_state(graph, graph.node(other), node); };
      return alike(graph, graph.node(group.front()), node) && std::none_of(group.begin(), group.end(), shares) &&
             gradient_bytes(graph, group) + gradient_bytes(graph, id) <= kMostBytes && independent(graph, id, group);
    };
    // The youngest group first: older ones hold earlier gradients.
    const auto it = std::find_if(groups.rbegin(), groups.rend(), fits);
    if (it != groups.rend())
      it->insert(std::upper_bound(it->begin(), it->end(), id), id);
    else
      groups.push_back({id});
  }
  return groups;
}

std::vector<Group> update_groups(const Graph& graph) {
  std::vector<Group> groups = candidates(graph);
  for (Group& group : groups) {
    const NodeId last = group.back();
    std::erase_if(group, [&](NodeId id) { return !may_wait(graph, id, last); });
  }
  std::erase_if(groups, [](const Group& group) { return group.size() < 2; });
  return groups;
}

class Joiner {
 public:
  explicit Joiner(const Graph& graph) : graph_(graph), rewriter_(graph), joined_(graph.nodes().size(), nullptr) {
    groups_ = update_groups(graph);
    for (const Group& group : groups_) {
      for (NodeId id : group) joined_[static_cast<std::size_t>(id)] = &group;
    }
  }

  Graph run() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Group* group = joined_[static_cast<std::size_t>(id)];
      if (group != nullptr) {
        if (id == group->back()) emit(*group);
      } else if (waits(id)) {
        waiting_.push_back(id);
      } else {
        rewriter_.copy(id);
      }
    }
    return rewriter_.finish();
  }

 private:
  bool waits(NodeId id) const {
    const Node& node = graph_.node(id);
    return is_op(node, "assign") && !rewriter_.mapped(node.in[0]);
  }

  void emit(const Group& group) {
    static const OpDef& op = find_op("sgd_update_many");
    std::vector<ValueId> in;
    for (std::size_t operand : {kW, kV, kG}) {
      for (NodeId id : group) in.push_back(rewriter_.map(graph_.node(id).in[operand]));
    }
    const Node& last = graph_.node(group.back());
    in.push_back(rewriter_.map(last.in[kLr]));
    const NodeId made = rewriter_.emit(op, in, last.attrs, group.back());
    rewriter_.to().node(made).scope = {};
    for (std::size_t i = 0; i < group.size(); ++i) name_results(group[i], made, {i, group.size() + i});
    release();
  }

  void name_results(NodeId update, NodeId made, std::array<std::size_t, 2> at) {
    for (std::size_t i = 0; i < at.size(); ++i) {
      const ValueId old = graph_.node(update).out[i];
      const ValueId fresh = rewriter_.to().node(made).out[at[i]];
      rewriter_.set(old, fresh);
      rewriter_.to().value(fresh).spec = graph_.value(old).spec;
    }
  }

  // Assigns whose values exist by now.
  void release() {
    std::vector<NodeId> later;
    for (NodeId id : waiting_) {
      if (waits(id))
        later.push_back(id);
      else
        rewriter_.copy(id);
    }
    waiting_ = std::move(later);
  }

  const Graph& graph_;
  Rewriter rewriter_;
  std::vector<Group> groups_;
  std::vector<const Group*> joined_;
  std::vector<NodeId> waiting_;
};

}  // namespace

Graph fused_optimizer(const Graph& graph, const PassContext&) { return Joiner(graph).run(); }

}  // namespace starling::passes
