#include "starling/graph/placement/tasks.h"

#include <algorithm>

#include "starling/base/error.h"
#include "starling/graph/dependencies.h"
#include "starling/graph/placement/patterns.h"
#include "starling/graph/placement/union_find.h"

namespace starling {

FreeViews find_free_views(const Graph& graph) {
  const auto count = graph.values().size();
  FreeViews views{std::vector<ValueId>(count), std::vector<bool>(count, true)};
  std::vector<Shape> strides(count);
  for (const Node& node : graph.nodes()) {
    for (ValueId out : node.out) {
      views.base[static_cast<std::size_t>(out)] = out;
      strides[static_cast<std::size_t>(out)] = contiguous_strides(graph.value(out).type.shape);
    }
    if (!node.op->view) continue;
    const auto from = static_cast<std::size_t>(node.in[0]), to = static_cast<std::size_t>(node.out[0]);
    const auto view = node.op->view({graph.value(node.in[0]).type.shape, strides[from], node.attrs});
    if (!view) continue;
    views.base[to] = views.base[from];
    strides[to] = view->strides;
    views.dense[to] = is_contiguous(view->shape, view->strides);
  }
  return views;
}

bool is_copied_along(const Graph& graph, const FreeViews& views, NodeId id) {
  const Node& node = graph.node(id);
  if (is_op(node, "constant")) return true;
  if (node.out.size() != 1 || node.in.size() != 1 || !node.after.empty()) return false;
  const ValueId out = node.out[0], base = views.base[static_cast<std::size_t>(out)];
  if (base == out) return false;
  // A dense piece of something larger is cheaper to send than the whole.
  const bool piece = views.dense[static_cast<std::size_t>(out)] &&
                     graph.value(out).type.shape.numel() < graph.value(base).type.shape.numel();
  return !piece;
}

namespace {

class Maker {
 public:
  Maker(const Graph& graph, const ConstraintClasses& classes, const PlacementOptions& options,
        const PlacementFacts& facts)
      : graph_(graph),
        classes_(classes),
        options_(options),
        facts_(facts),
        views_(find_free_views(graph)),
        value_of_(graph.values().size(), -1),
        news_of_(graph.nodes().size(), -1),
        sets_(graph.nodes().size() + 1) {}

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
    join_nodes();
    make_groups();
    return std::move(made_);
  }

 private:
  int task_of(NodeId id) const { return made_.task_of_node[static_cast<std::size_t>(id)]; }

  // The value that stands for an operand: views that go along with their readers are seen through.
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
      made_.values.push_back({task_of(id), -1, 0, 0, {}});
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
    // Effects happen in the order in which they were written.
    if (node.op->stateful && !is_source(node) && !is_op(node, "assign")) {
      if (last_effect_ >= 0) wait_for(task, last_effect_);
      last_effect_ = id;
    }
    for (std::size_t i = 0; i < node.out.size(); ++i) {
      value_of_[static_cast<std::size_t>(node.out[i])] = static_cast<int>(made_.values.size());
      made_.tasks[static_cast<std::size_t>(task)].out.push_back(static_cast<int>(made_.values.size()));
      made_.values.push_back({task, static_cast<int>(i), bytes_of(graph_.value(node.out[i]).type), 0, {}});
    }
    auto& seconds = made_.seconds.emplace_back();
    for (const auto& device : options_.devices) seconds.push_back(estimated_seconds(graph_, id, device, options_));
  }

  void wait_for(int task, NodeId other) {
    // What goes along with its readers has ended when its operand is there.
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

  // What reads a variable comes before what overwrites it: only where both use the same memory.
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

  // Arguments and results are the caller's memory, variables are counted once, updated ones are written in place.
  void size_values() {
    const auto users = graph_.users();
    for (auto& value : made_.values) {
      if (value.output < 0) continue;
      const Node& node = graph_.node(made_.tasks[static_cast<std::size_t>(value.task)].node);
      const ValueId id = node.out[static_cast<std::size_t>(value.output)];
      const bool view = views_.base[static_cast<std::size_t>(id)] != id;
      bool assigned = false;
      for (NodeId user : users[static_cast<std::size_t>(id)]) assigned |= is_op(graph_.node(user), "assign");
      if (!is_source(node) && !view && !assigned) value.memory = value.bytes;
    }
  }

  void join_nodes() {
    std::vector<NodeId> first_of_variable(graph_.variables.size(), -1), first_of_class(classes_.classes.size(), -1);
    const auto users = graph_.users();
    const auto share = [&](NodeId& first, NodeId id) {
      if (first < 0) first = id;
      sets_.join(first, id);
    };
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (task_of(id) < 0) continue;
      const Node& node = graph_.node(id);
      if (is_op(node, "variable") || is_op(node, "assign"))
        share(first_of_variable[static_cast<std::size_t>(source_index(node))], id);
      const int own = class_of(id);
      if (own > 0) share(first_of_class[static_cast<std::size_t>(own)], id);
      if (is_view(id)) join_view(id, users);
    }
    join_updates();
  }

  bool is_view(NodeId id) const {
    const Node& node = graph_.node(id);
    return !node.out.empty() && views_.base[static_cast<std::size_t>(node.out[0])] != node.out[0];
  }

  // Where an argument lies is its caller's choice, and a view is where its base is: constraints do not bind them.
  int class_of(NodeId id) const {
    if (is_op(graph_.node(id), "input") || is_view(id)) return 0;
    return classes_.of_node[static_cast<std::size_t>(id)];
  }

  // An update runs where the variable lives that it reads and writes, unless somebody wants it elsewhere: so optimizer
  // state comes to its parameter.
  void join_updates() {
    std::vector<int> fixed(graph_.nodes().size() + 1, -1);  // device of each set
    for (NodeId id = 0; id < graph_.size(); ++id) {
      if (task_of(id) < 0) continue;
      int device = classes_.classes[static_cast<std::size_t>(class_of(id))].device;
      if (const int given = given_device(graph_.node(id)); given >= 0) device = given;
      if (device >= 0) fixed[static_cast<std::size_t>(sets_.find(id))] = device;
    }
    std::vector<NodeId> read(graph_.variables.size(), -1);
    for (NodeId id = 0; id < graph_.size(); ++id) {
      const Node& node = graph_.node(id);
      if (is_op(node, "variable")) read[static_cast<std::size_t>(source_index(node))] = id;
      if (!is_op(node, "assign") || task_of(id) < 0) continue;
      const NodeId update = graph_.value(node.in[0]).node;
      const NodeId variable = read[static_cast<std::size_t>(source_index(node))];
      if (task_of(update) < 0 || variable < 0 || is_source(graph_.node(update))) continue;
      const auto& operands = graph_.node(update).in;
      const bool reads = std::find(operands.begin(), operands.end(), graph_.node(variable).out[0]) != operands.end();
      if (!reads) continue;
      const int a = fixed[static_cast<std::size_t>(sets_.find(update))];
      const int b = fixed[static_cast<std::size_t>(sets_.find(id))];
      if (a >= 0 && b >= 0 && a != b) continue;
      fixed[static_cast<std::size_t>(sets_.join(update, id))] = std::max(a, b);
    }
  }

  // A view stays with what it is a view of; one that is not dense cannot be sent, so its readers stay too.
  void join_view(NodeId id, const std::vector<std::vector<NodeId>>& users) {
    const Node& node = graph_.node(id);
    const int base = value_of(node.in[0]);
    if (base >= 0)
      sets_.join(id, made_.tasks[static_cast<std::size_t>(made_.values[static_cast<std::size_t>(base)].task)].node);
    if (views_.dense[static_cast<std::size_t>(node.out[0])]) return;
    for (NodeId user : users[static_cast<std::size_t>(node.out[0])]) {
      if (task_of(user) >= 0) sets_.join(id, user);
    }
  }

  void make_groups() {
    std::vector<int> group_of(graph_.nodes().size() + 1, -1);
    std::vector<NodeId> fixed_by;
    const auto group = [&](int task, int set) {
      int& g = group_of[static_cast<std::size_t>(set)];
      if (g < 0) {
        g = static_cast<int>(made_.groups.size());
        made_.groups.emplace_back().possible.assign(options_.devices.size(), true);
        fixed_by.push_back(-1);
      }
      made_.tasks[static_cast<std::size_t>(task)].group = g;
      made_.groups[static_cast<std::size_t>(g)].tasks.push_back(task);
      return g;
    };
    for (std::size_t t = 0; t + 1 < made_.tasks.size(); ++t) {
      const NodeId id = made_.tasks[t].node;
      const int g = group(static_cast<int>(t), sets_.find(id));
      fix(g, id, fixed_by[static_cast<std::size_t>(g)]);
    }
    const int end = group(static_cast<int>(made_.tasks.size()) - 1, graph_.size());
    made_.groups[static_cast<std::size_t>(end)].device = facts_.home;
    made_.groups[static_cast<std::size_t>(end)].asked = "the results";
    count_variables();
    for (auto& g : made_.groups) find_possible(g);
  }

  void fix(int group, NodeId id, NodeId& by) {
    const Node& node = graph_.node(id);
    const ConstraintClass& wish = classes_.classes[static_cast<std::size_t>(class_of(id))];
    int device = wish.device;
    std::string asked = wish.asked;
    if (const int given = given_device(node); given >= 0) {
      device = given;
      asked = "where it lies";
    }
    if (device < 0) return;
    TaskGroup& g = made_.groups[static_cast<std::size_t>(group)];
    if (g.device >= 0 && g.device != device) {
      fail(
          "[placement] expected nodes that share a device to be asked for on one, got {} on {} (by {}) and {} on {} "
          "(by {})",
          shown(graph_, by), name(g.device), g.asked, shown(graph_, id), name(device), asked);
    }
    if (g.device >= 0) return;
    g.device = device;
    g.asked = asked;
    by = id;
  }

  // Arguments lie where the caller has put them; so do variables that were moved to a device of another kind.
  int given_device(const Node& node) const {
    Device lies = options_.devices[static_cast<std::size_t>(facts_.home)].device;
    if (is_op(node, "input")) {
      lies = node.device;
    } else if (is_op(node, "variable")) {
      const Tensor& tensor = graph_.variables[static_cast<std::size_t>(source_index(node))].tensor;
      if (!tensor.defined() || tensor.device().kind == DeviceKind::cpu) return -1;
      lies = tensor.device();
    } else {
      return -1;
    }
    for (std::size_t d = 0; d < options_.devices.size(); ++d) {
      if (options_.devices[d].device == lies) return static_cast<int>(d);
    }
    fail("[placement] expected {} on one of the devices of the program, got it on {}",
         shown(graph_, graph_.value(node.out[0]).node), to_string(lies));
  }

  void count_variables() {
    std::vector<bool> seen(graph_.variables.size());
    for (const Task& task : made_.tasks) {
      if (task.node < 0) continue;
      const Node& node = graph_.node(task.node);
      if (!is_op(node, "variable") && !is_op(node, "assign")) continue;
      const auto index = static_cast<std::size_t>(source_index(node));
      if (seen[index]) continue;
      seen[index] = true;
      made_.groups[static_cast<std::size_t>(task.group)].variables += bytes_of(graph_.variables[index].type);
    }
  }

  void find_possible(TaskGroup& group) {
    for (int d = 0; d < made_.devices; ++d) {
      const auto at = static_cast<std::size_t>(d);
      if (group.device >= 0 && group.device != d) group.possible[at] = false;
      if (!group.possible[at] || !facts_.supports) continue;
      for (int t : group.tasks) {
        const NodeId id = made_.tasks[static_cast<std::size_t>(t)].node;
        if (id < 0 || is_source(graph_.node(id)) || is_op(graph_.node(id), "assign")) continue;
        if (facts_.supports(graph_, id, options_.devices[at])) continue;
        group.possible[at] = false;
        if (group.device == d) {
          fail("[placement] expected a kernel for {} on {} (asked for by {}), got none", shown(graph_, id), name(d),
               group.asked);
        }
        break;
      }
    }
    if (std::find(group.possible.begin(), group.possible.end(), true) != group.possible.end()) return;
    fail("[placement] expected a device with kernels for {} and what must be with it, got none among {}",
         shown(graph_, made_.tasks[static_cast<std::size_t>(group.tasks[0])].node), all_names());
  }

  std::string name(int device) const { return to_string(options_.devices[static_cast<std::size_t>(device)].device); }
  std::string all_names() const {
    std::string text;
    for (int d = 0; d < made_.devices; ++d) text += (d ? ", " : "") + name(d);
    return text;
  }

  const Graph& graph_;
  const ConstraintClasses& classes_;
  const PlacementOptions& options_;
  const PlacementFacts& facts_;
  FreeViews views_;
  std::vector<int> value_of_;  // by graph value
  std::vector<int> news_of_;   // by node: the value that says it has ended
  UnionFind sets_;             // of nodes; the last is the end
  NodeId last_effect_ = -1;
  TaskGraph made_;
};

}  // namespace

TaskGraph make_tasks(const Graph& graph, const ConstraintClasses& classes, const PlacementOptions& options,
                     const PlacementFacts& facts) {
  return Maker(graph, classes, options, facts).run();
}

}  // namespace starling
