#include "starling/graph/placement/tasks.h"

#include <algorithm>

#include "starling/graph/control/control_types.h"
#include "starling/graph/dependencies.h"
#include "starling/tensor/bytes.h"

namespace starling::graph {

namespace {

class Maker {
 public:
  Maker(const Graph& graph, const PlacementOptions& options, const PlacementFacts& facts)
      : graph_(graph),
        options_(options),
        facts_(facts),
        views_(find_free_views(graph)),
        value_of_(graph.values().size(), -1),
        news_of_(graph.nodes().size(), -1) {}

  TaskGraph run() {
    made_.devices = static_cast<int>(options_.devices.size());
    made_.home = facts_.home;
    made_.link = options_.link;
    for (std::size_t d = 0; d < options_.devices.size(); ++d) {
      const auto reserved = d < facts_.reserved.size() ? facts_.reserved[d] : 0;
      const auto cap = options_.devices[d].memory_cap;
      made_.caps.push_back(cap == 0 ? 0 : std::max<std::int64_t>(1, cap - reserved));
    }
    made_.task_of_node.assign(graph_.nodes().size(), -1);
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (!is_copied_along(graph_, views_, id)) add_task(id);
    }
    add_end();
    add_state_order();
    size_values();
    return std::move(made_);
  }

 private:
  int task_of(NodeId id) const { return made_.task_of_node[static_cast<std::size_t>(id)]; }

  // Task value of an operand, seen through duplicated views.
  int value_of(ValueId id) {
    while (is_copied_along(graph_, views_, graph_.value(id).node)) {
      const Node& maker = graph_.maker(id);
      if (maker.in.empty()) return -1;  // a constant
      id = maker.in[0];
    }
    return value_of_[static_cast<std::size_t>(id)];
  }

  int news_of(NodeId id) {
    int& news = news_of_[static_cast<std::size_t>(id)];
    if (news < 0) {
      news = static_cast<int>(made_.values.size());
      made_.values.push_back({task_of(id), -1, 0, 0, {}, 0});
      made_.tasks[static_cast<std::size_t>(task_of(id))].out.push_back(news);
    }
    return news;
  }

  void read(int task, int value) {
    if (value < 0) return;
    auto& in = made_.tasks[static_cast<std::size_t>(task)].in;
    if (std::find(in.begin(), in.end(), value) != in.end()) return;
    in.push_back(value);
    made_.values[static_cast<std::size_t>(value)].users.push_back(task);
  }

  void add_task(NodeId id) {
    const Node& node = graph_.node(id);
    const int task = static_cast<int>(made_.tasks.size());
    made_.task_of_node[static_cast<std::size_t>(id)] = task;
    made_.tasks.emplace_back().node = id;
    made_.tasks.back().reuses_operand = node.op->inplace >= 0 || node.op->elementwise();
    for (ValueId in : node.in) read(task, value_of(in));
    for (NodeId other : node.after) wait_for(task, other);
    // Effects keep program order.
    if (acts_outside(graph_, node)) {
      if (last_effect_ >= 0) wait_for(task, last_effect_);
      last_effect_ = id;
    }
    for (std::size_t i = 0; i < node.out.size(); ++i) {
      value_of_[static_cast<std::size_t>(node.out[i])] = static_cast<int>(made_.values.size());
      made_.tasks[static_cast<std::size_t>(task)].out.push_back(static_cast<int>(made_.values.size()));
      made_.values.push_back(
          {task, static_cast<int>(i), static_cast<std::int64_t>(bytes_of(graph_.value(node.out[i]).type)), 0, {}, 0});
    }
    auto& seconds = made_.seconds.emplace_back();
    for (const auto& device : options_.devices) seconds.push_back(estimated_seconds(graph_, id, device, options_));
  }

  void wait_for(int task, NodeId other) {
    // A duplicated view is complete when its operand is.
    while (task_of(other) < 0) {
      if (graph_.node(other).in.empty()) return;
      other = graph_.value(graph_.node(other).in[0]).node;
    }
    read(task, news_of(other));
  }

  void add_end() {
    const int task = static_cast<int>(made_.tasks.size());
    made_.tasks.emplace_back();
    made_.seconds.emplace_back(options_.devices.size(), 0.0);
    for (ValueId out : graph_.outputs) read(task, value_of(out));
  }

  // Reads of a variable precede writes to it, where both use the same memory.
  void add_state_order() {
    const auto before = dependencies(graph_);
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (task_of(id) < 0) continue;
      auto& list = made_.tasks[static_cast<std::size_t>(task_of(id))].before;
      for (NodeId other : before[static_cast<std::size_t>(id)]) {
        if (task_of(other) >= 0) list.push_back(task_of(other));
      }
      std::sort(list.begin(), list.end());
      list.erase(std::unique(list.begin(), list.end()), list.end());
    }
  }

  // Sizes of values: arguments and results are the caller's memory, variables are counted once, updates write in place.
  void size_values() {
    const auto users = graph_.users();
    std::vector<bool> changes(graph_.variables.size());
    for (const Node& node : graph_.nodes()) {
      if (is_op(node, "assign")) changes[static_cast<std::size_t>(source_index(node))] = true;
    }
    for (auto& value : made_.values) {
      if (value.output < 0) continue;
      const Node& node = graph_.node(made_.tasks[static_cast<std::size_t>(value.task)].node);
      const ValueId id = node.out[static_cast<std::size_t>(value.output)];
      const bool view = views_.base[static_cast<std::size_t>(id)] != id;
      bool assigned = false;
      for (NodeId user : users[static_cast<std::size_t>(id)]) assigned |= is_op(graph_.node(user), "assign");
      if (!is_source(node) && !view && !assigned) value.memory = value.bytes;
      if (is_op(node, "variable") && changes[static_cast<std::size_t>(source_index(node))])
        value.sent_memory = value.bytes;
    }
  }

  const Graph& graph_;
  const PlacementOptions& options_;
  const PlacementFacts& facts_;
  FreeViews views_;
  std::vector<int> value_of_;  // by graph value
  std::vector<int> news_of_;   // by node: value that signals its completion
  NodeId last_effect_ = -1;
  TaskGraph made_;
};

}  // namespace

TaskGraph make_tasks(const Graph& graph, const ConstraintClasses& classes, const PlacementOptions& options,
                     const PlacementFacts& facts) {
  TaskGraph made = Maker(graph, options, facts).run();
  group_tasks(made, graph, classes, options, facts);
  return made;
}

}  // namespace starling::graph
