#include <algorithm>

#include "starling/base/error.h"
#include "starling/graph/placement/patterns.h"
#include "starling/graph/placement/tasks.h"
#include "starling/graph/placement/union_find.h"
#include "starling/tensor/bytes.h"

namespace starling::graph {
namespace {

class Grouper {
 public:
  Grouper(TaskGraph& made, const Graph& graph, const ConstraintClasses& classes, const PlacementOptions& options,
          const PlacementFacts& facts)
      : made_(made),
        graph_(graph),
        classes_(classes),
        options_(options),
        facts_(facts),
        views_(find_free_views(graph)),
        sets_(graph.nodes().size() + 1) {}

  void run() {
    join_nodes();
    make_groups();
  }

 private:
  int task_of(NodeId id) const { return made_.task_of_node[static_cast<std::size_t>(id)]; }

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

  // Constraints do not bind arguments, which lie where the caller put them, nor views, which are where their base is.
  int class_of(NodeId id) const {
    if (is_op(graph_.node(id), "input") || is_view(id)) return 0;
    return classes_.of_node[static_cast<std::size_t>(id)];
  }

  // An update runs where its variable lives, unless requested elsewhere, so that optimizer state is placed with its
  // parameter.
  void join_updates() {
    std::vector<int> fixed(graph_.nodes().size() + 1, -1);  // by set
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

  // A view stays with its base; one that is not dense cannot be sent, so its readers stay too.
  void join_view(NodeId id, const std::vector<std::vector<NodeId>>& users) {
    const Node& node = graph_.node(id);
    const NodeId base = maker_of(graph_, views_, node.in[0]);
    if (base >= 0) sets_.join(id, base);
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

  // Device of an argument, or of a variable moved to a device of another kind: fixed by the caller.
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
      made_.groups[static_cast<std::size_t>(task.group)].variables +=
          static_cast<std::int64_t>(bytes_of(graph_.variables[index].type));
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

  TaskGraph& made_;
  const Graph& graph_;
  const ConstraintClasses& classes_;
  const PlacementOptions& options_;
  const PlacementFacts& facts_;
  FreeViews views_;
  UnionFind sets_;  // of nodes; the last is the end of the program
};

}  // namespace

void group_tasks(TaskGraph& tasks, const Graph& graph, const ConstraintClasses& classes,
                 const PlacementOptions& options, const PlacementFacts& facts) {
  Grouper(tasks, graph, classes, options, facts).run();
}

}  // namespace starling::graph
