#include <algorithm>
#include <queue>
#include <tuple>

#include "starling/graph/pass.h"
#include "starling/graph/rewriter.h"

namespace starling::passes {
namespace {

// What must come before what: operands, control edges, and reads of a variable before whatever overwrites it.
class Order {
 public:
  explicit Order(const Graph& graph) : graph_(graph), before_(graph.nodes().size()) {
    NodeId last_comm = -1, last_effect = -1;
    for (NodeId id = 0; id < graph.size(); ++id) {
      for (ValueId in : graph.node(id).in) edge(graph.value(in).node, id);
      for (NodeId other : graph.node(id).after) edge(other, id);
      if (has_effect(graph.node(id))) {
        if (last_effect >= 0) edge(last_effect, id);
        last_effect = id;
      }
      // All ranks make their collectives in one order, whatever else differs between them.
      if (!graph.node(id).op->comm) continue;
      if (last_comm >= 0) edge(last_comm, id);
      last_comm = id;
    }
    keep_state_in_order();
  }
  const std::vector<NodeId>& before(NodeId id) const { return before_[static_cast<std::size_t>(id)]; }

 private:
  void edge(NodeId first, NodeId then) {
    if (first != then) before_[static_cast<std::size_t>(then)].push_back(first);
  }

  // Views of a variable read its memory too, so readers are followed through them.
  void readers(ValueId value, std::vector<NodeId>& found) const {
    for (NodeId user : users_[static_cast<std::size_t>(value)]) {
      found.push_back(user);
      if (graph_.node(user).op->view) readers(graph_.node(user).out[0], found);
    }
  }

  void keep_state_in_order() {
    users_ = graph_.users();
    std::vector<std::vector<NodeId>> reads(graph_.variables.size());
    std::vector<NodeId> last_assign(graph_.variables.size(), -1);
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      if (is_op(node, "variable")) {
        const auto variable = static_cast<std::size_t>(source_index(node));
        if (last_assign[variable] >= 0) edge(last_assign[variable], id);
        readers(node.out[0], reads[variable]);
      }
      if (!is_op(node, "assign")) continue;
      const auto variable = static_cast<std::size_t>(source_index(node));
      const NodeId maker = graph_.value(node.in[0]).node;
      for (NodeId reader : reads[variable]) {
        if (reader >= id) continue;
        edge(reader, id);
        if (reader < maker) edge(reader, maker);
      }
      if (last_assign[variable] >= 0) edge(last_assign[variable], id);
      last_assign[variable] = id;
    }
  }

  const Graph& graph_;
  std::vector<std::vector<NodeId>> before_;
  std::vector<std::vector<NodeId>> users_;
};

bool only_assigned(const Graph& graph, const std::vector<std::vector<NodeId>>& users, const Node& node) {
  if (is_op(node, "assign")) return true;
  if (node.out.empty()) return false;
  for (ValueId out : node.out) {
    if (users[static_cast<std::size_t>(out)].empty()) return false;
    for (NodeId user : users[static_cast<std::size_t>(out)]) {
      if (!is_op(graph.node(user), "assign")) return false;
    }
  }
  return true;
}

// Communication starts as soon as its operand exists; what waits for communication comes last, in the order it arrives;
// updates run when their gradient is there, while it is still in cache.
std::vector<NodeId> choose(const Graph& graph, const Order& order) {
  const auto count = static_cast<std::size_t>(graph.size());
  const auto users = graph.users();
  std::vector<int> arrives(count, 0);  // the latest collective it waits for, counted from 1
  std::vector<int> missing(count, 0);
  std::vector<std::vector<NodeId>> then(count);
  int collectives = 0;
  for (NodeId id = 0; id < graph.size(); ++id) {
    const auto at = static_cast<std::size_t>(id);
    for (NodeId first : order.before(id)) {
      arrives[at] = std::max(arrives[at], arrives[static_cast<std::size_t>(first)]);
      then[static_cast<std::size_t>(first)].push_back(id);
      ++missing[at];
    }
    if (graph.node(id).op->comm) arrives[at] = ++collectives;
  }
  using Key = std::tuple<int, int, NodeId>;
  std::priority_queue<Key, std::vector<Key>, std::greater<>> ready;
  const auto push = [&](NodeId id) {
    const Node& node = graph.node(id);
    if (node.op->comm) {
      ready.emplace(0, 0, id);
      return;
    }
    const int kind = is_source(node) ? 0 : only_assigned(graph, users, node) ? 1 : 2;
    ready.emplace(arrives[static_cast<std::size_t>(id)], kind, id);
  };
  for (NodeId id = 0; id < graph.size(); ++id) {
    if (missing[static_cast<std::size_t>(id)] == 0) push(id);
  }
  std::vector<NodeId> chosen;
  while (!ready.empty()) {
    const NodeId id = std::get<2>(ready.top());
    ready.pop();
    chosen.push_back(id);
    for (NodeId next : then[static_cast<std::size_t>(id)]) {
      if (--missing[static_cast<std::size_t>(next)] == 0) push(next);
    }
  }
  return chosen;
}

}  // namespace

Graph schedule(const Graph& graph, const PassContext&) {
  const Order order(graph);
  Rewriter rewriter(graph);
  for (NodeId id : choose(graph, order)) {
    const NodeId made = rewriter.copy(id);
    Node& node = rewriter.to().node(made);
    if (node.op->comm) node.lane = Lane::comm;
  }
  return rewriter.finish();
}

}  // namespace starling::passes
