#include <algorithm>

#include "starling/graph/pass.h"
#include "starling/graph/rewriter.h"
#include "starling/ops/def/attrs/update.h"
#include "starling/ops/def/registry.h"
#include "starling/tensor/bytes.h"

namespace starling::graph::passes {
namespace {

// Limit of gradient bytes per fused update, since gradients wait for it. Larger updates have enough work for all
// threads, and alone run as soon as their gradient is ready.
constexpr std::size_t kMostBytes = 1 << 20;

using Group = std::vector<NodeId>;

op::UpdateOperands operands_of(const Node& update) { return *op::update_operands(*update.op, update.attrs); }

ValueId gradient_of(const Node& update) { return update.in[operands_of(update).targets]; }

std::span<const ValueId> targets_of(const Node& update) { return {update.in.data(), operands_of(update).targets}; }

std::span<const ValueId> scalars_of(const Node& update) {
  return {update.in.data() + operands_of(update).targets + 1, operands_of(update).scalars};
}

std::size_t gradient_bytes(const Graph& graph, NodeId update) {
  return bytes_of(graph.value(gradient_of(graph.node(update))).type);
}

std::size_t gradient_bytes(const Graph& graph, const Group& group) {
  std::size_t bytes = 0;
  for (NodeId id : group) bytes += gradient_bytes(graph, id);
  return bytes;
}

bool alike(const Graph& graph, const Node& a, const Node& b) {
  return a.op == b.op && a.attrs == b.attrs && a.device == b.device && a.lane == b.lane &&
         std::ranges::equal(scalars_of(a), scalars_of(b)) &&
         graph.value(a.in[0]).type.dtype == graph.value(b.in[0]).type.dtype;
}

// True if one of `nodes` needs a result of the group, through data or control edges. Both lists ascend.
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

// True if the readers of the update's results can move behind the fused update at `last`: nothing before it reads them
// but assigns, and nobody in between reads the variables those assign.
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

// Value that owns this one's memory.
ValueId root(const Graph& graph, ValueId id) {
  while (graph.maker(id).op->view) id = graph.maker(id).in[0];
  return id;
}

// True if one of two updates reads what the other overwrites.
bool share_state(const Graph& graph, const Node& a, const Node& b) {
  const auto reads = [&](const Node& reader, const Node& writer) {
    return std::any_of(reader.in.begin(), reader.in.end(), [&](ValueId read) {
      return std::ranges::any_of(targets_of(writer), [&](ValueId w) { return root(graph, w) == root(graph, read); });
    });
  };
  return reads(a, b) || reads(b, a);
}

bool is_single_update(const Node& node) {
  const auto operands = op::update_operands(*node.op, node.attrs);
  return operands && operands->tensors(node.in.size()) == 1;
}

// Updates in the order of their gradients, so that neighbours are joined.
std::vector<NodeId> updates(const Graph& graph) {
  std::vector<NodeId> found;
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    if (is_single_update(node) && node.after.empty() && gradient_bytes(graph, id) < kMostBytes) found.push_back(id);
  }
  const auto made = [&](NodeId id) { return graph.value(gradient_of(graph.node(id))).node; };
  std::stable_sort(found.begin(), found.end(), [&](NodeId a, NodeId b) { return made(a) < made(b); });
  return found;
}

bool independent(const Graph& graph, NodeId id, const Group& group) {
  const auto middle = std::lower_bound(group.begin(), group.end(), id);
  return !depends_on(graph, {id}, Group(group.begin(), middle)) && !depends_on(graph, Group(middle, group.end()), {id});
}

// By node: the last bucket of reduced gradients that it waits for, -1 for none; an update must not wait for later ones
// than its own.
std::vector<NodeId> last_buckets(const Graph& graph) {
  std::vector<NodeId> last(graph.nodes().size(), -1);
  for (NodeId id = 0; id < graph.size(); ++id) {
    const Node& node = graph.node(id);
    auto& own = last[static_cast<std::size_t>(id)];
    for (ValueId in : node.in) own = std::max(own, last[static_cast<std::size_t>(graph.value(in).node)]);
    if (node.op->comm && node.out.size() > 1) own = id;
  }
  return last;
}

std::vector<Group> candidates(const Graph& graph) {
  const std::vector<NodeId> buckets = last_buckets(graph);
  const auto bucket = [&](NodeId id) { return buckets[static_cast<std::size_t>(id)]; };
  std::vector<Group> groups;
  for (NodeId id : updates(graph)) {
    const Node& node = graph.node(id);
    const auto fits = [&](const Group& group) {
      const auto shares = [&](NodeId other) { return share_state(graph, graph.node(other), node); };
      return alike(graph, graph.node(group.front()), node) && bucket(group.front()) == bucket(id) &&
             std::none_of(group.begin(), group.end(), shares) &&
             gradient_bytes(graph, group) + gradient_bytes(graph, id) <= kMostBytes && independent(graph, id, group);
    };
    // Newest group first: older ones hold earlier gradients.
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
    const Node& last = graph_.node(group.back());
    const std::size_t targets = operands_of(last).targets;
    std::vector<ValueId> in;
    for (std::size_t operand = 0; operand <= targets; ++operand) {
      for (NodeId id : group) in.push_back(rewriter_.map(graph_.node(id).in[operand]));
    }
    for (ValueId scalar : scalars_of(last)) in.push_back(rewriter_.map(scalar));
    const NodeId made = rewriter_.emit(joined_op(last), in, last.attrs, group.back());
    rewriter_.to().node(made).scope = {};
    for (std::size_t i = 0; i < group.size(); ++i) name_results(group[i], made, i, group.size());
    release();
  }

  // Most updates take any number of tensors.
  static const OpDef& joined_op(const Node& update) {
    static const OpDef& sgd = find_op("sgd_update_many");
    return is_op(update, "sgd_update") ? sgd : *update.op;
  }

  void name_results(NodeId update, NodeId made, std::size_t at, std::size_t count) {
    for (std::size_t i = 0; i < graph_.node(update).out.size(); ++i) {
      const ValueId old = graph_.node(update).out[i];
      const ValueId fresh = rewriter_.to().node(made).out[i * count + at];
      rewriter_.set(old, fresh);
      rewriter_.to().value(fresh).layouts = graph_.value(old).layouts;
    }
  }

  // Emits assigns whose values exist by now.
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

Graph fused_optimizer(const Graph& graph, const PassContext&) { return Joiner(graph).run(); }

}  // namespace
}  // namespace starling::graph::passes

namespace starling::graph {

void register_pass_fused_optimizer(PassTable& table) {
  table.add({.name = "fused_optimizer",
             .doc = "join the updates of all parameters into one",
             .order = 2100,
             .run = passes::fused_optimizer});
}

}  // namespace starling::graph
