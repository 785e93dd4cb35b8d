#include "starling/graph/dependencies.h"

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <utility>

#include "starling/graph/control/control_types.h"

namespace starling::graph {
namespace {

class Dependencies {
 public:
  Dependencies(const Graph& graph, CommOrder order)
      : graph_(graph),
        order_(order),
        before_(graph.nodes().size()),
        variable_(graph.values().size(), -1),
        state_(graph.variables.size()) {}

  std::vector<std::vector<NodeId>> run() {
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      for (ValueId in : node.in) need(id, graph_.value(in).node);
      for (NodeId other : node.after) need(id, other);
      if (keeps_its_turn(node)) need(id, std::exchange(last_in_group(node), id));
      if (!node.op->comm && acts_outside(graph_, node)) need(id, std::exchange(last_effect_, id));
      note_reads(id);
      if (is_op(node, "assign")) assign(id);
    }
    return std::move(before_);
  }

 private:
  struct State {
    std::vector<NodeId> readers;
    NodeId assigned = -1;
  };

  bool keeps_its_turn(const Node& node) const {
    return communicates(graph_, node) && (order_ == CommOrder::kept || acts_outside(graph_, node));
  }

  NodeId& last_in_group(const Node& node) { return last_comm_.try_emplace(&comm_group(node).str(), -1).first->second; }

  void need(NodeId id, NodeId first) {
    if (first >= 0 && first != id) before_[static_cast<std::size_t>(id)].push_back(first);
  }

  // Views of a variable read its memory too, so readers are followed through them.
  void note_reads(NodeId id) {
    const Node& node = graph_.node(id);
    if (is_op(node, "variable")) {
      const auto index = static_cast<int>(source_index(node));
      variable_[static_cast<std::size_t>(node.out[0])] = index;
      need(id, state_[static_cast<std::size_t>(index)].assigned);
      state_[static_cast<std::size_t>(index)].readers.push_back(id);
    }
    for (ValueId in : node.in) {
      const int index = variable_[static_cast<std::size_t>(in)];
      if (index < 0) continue;
      state_[static_cast<std::size_t>(index)].readers.push_back(id);
      if (node.op->view) variable_[static_cast<std::size_t>(node.out[0])] = index;
    }
  }

  // The maker of the new value may write it in place, so it too comes after the readers.
  void assign(NodeId id) {
    State& state = state_[static_cast<std::size_t>(source_index(graph_.node(id)))];
    const NodeId maker = graph_.value(graph_.node(id).in[0]).node;
    for (NodeId reader : state.readers) {
      need(id, reader);
      if (reader < maker) need(maker, reader);
    }
    need(id, state.assigned);
    if (state.assigned < maker) need(maker, state.assigned);
    state.assigned = id;
  }

  const Graph& graph_;
  CommOrder order_;
  std::vector<std::vector<NodeId>> before_;
  std::vector<int> variable_;  // variable whose memory holds the value; -1: its own memory
  std::vector<State> state_;
  std::map<const std::string*, NodeId> last_comm_;  // by the name of the group, which is interned
  NodeId last_effect_ = -1;
};

}  // namespace

std::vector<std::vector<NodeId>> dependencies(const Graph& graph, CommOrder order) {
  return Dependencies(graph, order).run();
}

std::vector<Symbol> comm_groups(const Graph& graph) {
  std::vector<Symbol> found;
  for (const Node& node : graph.nodes()) {
    if (!node.op->comm) continue;
    const Symbol group = comm_group(node);
    if (std::find(found.begin(), found.end(), group) == found.end()) found.push_back(group);
  }
  return found;
}

std::vector<int> comm_rounds(const Graph& graph, const std::vector<std::vector<NodeId>>& before) {
  std::vector<int> round(before.size(), 0);
  for (std::size_t id = 0; id < before.size(); ++id) {
    for (NodeId first : before[id]) round[id] = std::max(round[id], round[static_cast<std::size_t>(first)]);
    if (graph.node(static_cast<NodeId>(id)).op->comm) ++round[id];
  }
  return round;
}

std::vector<NodeId> grouped_order(const std::vector<std::vector<NodeId>>& before, const std::vector<NodeId>& place) {
  std::vector<std::vector<NodeId>> next(place.size());
  std::vector<int> waits(place.size());
  for (std::size_t id = 0; id < place.size(); ++id) {
    for (NodeId first : before[id]) {
      const NodeId from = place[static_cast<std::size_t>(first)], to = place[id];
      if (from == to) continue;
      next[static_cast<std::size_t>(from)].push_back(to);
      ++waits[static_cast<std::size_t>(to)];
    }
  }
  std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> ready;
  for (std::size_t id = 0; id < place.size(); ++id) {
    if (place[id] == static_cast<NodeId>(id) && waits[id] == 0) ready.push(static_cast<NodeId>(id));
  }
  std::vector<NodeId> order;
  while (!ready.empty()) {
    order.push_back(ready.top());
    ready.pop();
    for (NodeId id : next[static_cast<std::size_t>(order.back())]) {
      if (--waits[static_cast<std::size_t>(id)] == 0) ready.push(id);
    }
  }
  return order;
}

}  // namespace starling::graph
