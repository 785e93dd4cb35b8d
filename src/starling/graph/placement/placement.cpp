#include "starling/graph/placement/placement.h"

#include <algorithm>
#include <map>

#include "starling/base/error.h"
#include "starling/graph/placement/patterns.h"
#include "starling/graph/placement/search.h"
#include "starling/tensor/bytes.h"

namespace starling::graph {
namespace {

constexpr double kReceiptSlack = 0.02;  // slack of the makespan for later receives

std::size_t at(int i) { return static_cast<std::size_t>(i); }

class Placer {
 public:
  Placer(const Graph& graph, const ConstraintClasses& classes, const PlacementOptions& options,
         const PlacementFacts& facts)
      : graph_(graph), options_(options), tasks_(make_tasks(graph, classes, options, facts)), simulator_(tasks_) {}

  DevicePlacement run() {
    check_fixed_variables();
    check_all_variables();
    const auto chosen = search_devices(tasks_, simulator_, clusters());
    const Simulated simulated = simulator_.delay_receipts(simulator_.schedule(chosen), chosen, kReceiptSlack);
    check_memory(simulated, chosen);
    return result(simulated, chosen);
  }

 private:
  std::string name(int device) const { return to_string(options_.devices[at(device)].device); }

  // Variables pinned to a device must fit there.
  void check_fixed_variables() const {
    for (int d = 0; d < tasks_.devices; ++d) {
      std::int64_t bytes = 0;
      for (const auto& group : tasks_.groups) bytes += group.device == d ? group.variables : 0;
      const auto cap = tasks_.caps[at(d)];
      if (cap == 0 || bytes <= cap) continue;
      fail("[placement] expected at most {} bytes on {}, got {} of variables asked for there ({}): {} too many", cap,
           name(d), bytes, variables_of([&](const TaskGroup& group) { return group.device == d; }), bytes - cap);
    }
  }

  void check_all_variables() const {
    std::int64_t bytes = 0, room = 0;
    for (const auto& group : tasks_.groups) bytes += group.variables;
    for (auto cap : tasks_.caps) {
      if (cap == 0) return;
      room += cap;
    }
    if (bytes <= room) return;
    std::string caps;
    for (int d = 0; d < tasks_.devices; ++d)
      caps += fmt::format("{}{} on {}", d ? ", " : "", tasks_.caps[at(d)], name(d));
    fail("[placement] expected variables within the memory of all devices ({} bytes: {}), got {} bytes: {} too many",
         room, caps, bytes, bytes - room);
  }

  template <class Which>
  std::string variables_of(Which which) const {
    std::map<std::string, std::int64_t> sizes;
    for (const auto& group : tasks_.groups) {
      if (!which(group)) continue;
      for (int t : group.tasks) {
        const NodeId id = tasks_.tasks[at(t)].node;
        if (id < 0 || !(is_op(graph_.node(id), "variable") || is_op(graph_.node(id), "assign"))) continue;
        const auto& variable = graph_.variables[static_cast<std::size_t>(source_index(graph_.node(id)))];
        sizes[variable.name] = static_cast<std::int64_t>(bytes_of(variable.type));
      }
    }
    std::string text;
    constexpr std::size_t kMost = 8;
    std::size_t count = 0;
    for (const auto& [variable, bytes] : sizes) {
      if (++count > kMost) return text + fmt::format(" and {} more", sizes.size() - kMost);
      text += fmt::format("{}'{}' {}", text.empty() ? "" : ", ", variable, bytes);
    }
    return text;
  }

  void check_memory(const Simulated& simulated, const std::vector<int>& chosen) const {
    if (simulated.over == 0) return;
    std::string text;
    for (int d = 0; d < tasks_.devices; ++d) {
      const auto cap = tasks_.caps[at(d)], peak = simulated.peak[at(d)];
      if (cap == 0 || peak <= cap) continue;
      const auto here = [&](const TaskGroup& group) {
        return chosen[static_cast<std::size_t>(&group - tasks_.groups.data())] == d;
      };
      const std::string held = variables_of(here);
      text += fmt::format("{}{} bytes on {} ({} allowed, {} too many{})", text.empty() ? "" : "; ", peak, name(d), cap,
                          peak - cap, held.empty() ? "" : "; variables " + held);
    }
    fail("[placement] expected a placement within the memory of each device, got none; the best needs {}", text);
  }

  // Groups of one scope, with the gradients of its nodes, to be moved together.
  std::vector<std::vector<int>> clusters() const {
    std::map<std::string, std::vector<int>> by_scope;
    for (const Task& task : tasks_.tasks) {
      if (task.node < 0 || tasks_.groups[at(task.group)].device >= 0) continue;
      const Node& node = graph_.node(task.node);
      const bool follows = node.scope.empty() && node.origin >= 0;
      const std::string scope = follows ? graph_.node(node.origin).scope.str() : scope_of(graph_, task.node);
      if (scope.empty()) continue;
      auto& list = by_scope[scope];
      if (list.empty() || list.back() != task.group) list.push_back(task.group);
    }
    std::vector<std::vector<int>> all;
    for (auto& [scope, groups] : by_scope) {
      if (groups.size() > 1) all.push_back(std::move(groups));
    }
    return all;
  }

  DevicePlacement result(const Simulated& simulated, const std::vector<int>& chosen) const {
    DevicePlacement placement;
    placement.of_node.assign(graph_.nodes().size(), -1);
    for (const Task& task : tasks_.tasks) {
      if (task.node >= 0) placement.of_node[at(task.node)] = chosen[at(task.group)];
    }
    placement.makespan = simulated.makespan;
    placement.busy = simulated.busy;
    placement.peak_bytes = simulated.peak;
    placement.variable_bytes = simulator_.variable_bytes(chosen);
    const auto released = simulator_.release_positions(simulated, chosen);
    for (const auto& jobs : simulated.jobs) {
      auto& steps = placement.steps.emplace_back();
      for (const SimulatedJob& job : jobs) steps.push_back(step(job));
    }
    add_releases(placement, released, chosen);
    add_bytes_in(placement, chosen);
    return placement;
  }

  PlacedStep step(const SimulatedJob& job) const {
    if (!job.receives) return {tasks_.tasks[at(job.id)].node, -1, PlacedStep::Kind::run, job.start, job.finish, 0};
    const TaskValue& value = tasks_.values[at(job.id)];
    return {
        tasks_.tasks[at(value.task)].node, value.output, PlacedStep::Kind::receive, job.start, job.finish, value.bytes};
  }

  void add_releases(DevicePlacement& placement, const std::vector<int>& released,
                    const std::vector<int>& chosen) const {
    std::vector<std::vector<std::vector<int>>> at_position(placement.steps.size());
    for (std::size_t d = 0; d < placement.steps.size(); ++d) at_position[d].resize(placement.steps[d].size() + 1);
    for (std::size_t v = 0; v < released.size(); ++v) {
      if (released[v] < 0 || tasks_.values[v].output < 0) continue;
      const int device = chosen[at(tasks_.tasks[at(tasks_.values[v].task)].group)];
      at_position[at(device)][at(released[v])].push_back(static_cast<int>(v));
    }
    for (std::size_t d = 0; d < placement.steps.size(); ++d) {
      std::vector<PlacedStep> steps;
      for (std::size_t i = 0; i <= placement.steps[d].size(); ++i) {
        if (i < placement.steps[d].size()) steps.push_back(placement.steps[d][i]);
        const double now = steps.empty() ? 0 : steps.back().finish;
        for (int v : at_position[d][i]) {
          const TaskValue& value = tasks_.values[at(v)];
          steps.push_back({tasks_.tasks[at(value.task)].node, value.output, PlacedStep::Kind::release, now, now, 0});
        }
      }
      placement.steps[d] = std::move(steps);
    }
  }

  // Adds received bytes to the reading node as well, for the table.
  void add_bytes_in(DevicePlacement& placement, const std::vector<int>& chosen) const {
    for (std::size_t d = 0; d < placement.steps.size(); ++d) {
      for (auto& s : placement.steps[d]) {
        if (s.kind == PlacedStep::Kind::receive) ++placement.transfers;
        if (s.kind != PlacedStep::Kind::run || s.node < 0) continue;
        for (int v : tasks_.tasks[at(tasks_.task_of_node[at(s.node)])].in) {
          const TaskValue& value = tasks_.values[at(v)];
          if (chosen[at(tasks_.tasks[at(value.task)].group)] != static_cast<int>(d)) s.bytes_in += value.bytes;
        }
      }
    }
  }

  const Graph& graph_;
  const PlacementOptions& options_;
  const TaskGraph tasks_;
  const Simulator simulator_;
};

}  // namespace

DevicePlacement place(const Graph& graph, const ConstraintClasses& classes, const PlacementOptions& options,
                      const PlacementFacts& facts) {
  constexpr std::size_t kMostDevices = 64;
  check(!options.devices.empty() && options.devices.size() <= kMostDevices,
        "[placement] expected 1 to {} devices, got {}", kMostDevices, options.devices.size());
  return Placer(graph, classes, options, facts).run();
}

std::string explain(const Graph& graph, const DevicePlacement& placement, const PlacementOptions& options) {
  const auto name = [&](std::size_t d) { return to_string(options.devices[d].device); };
  std::string text = "node                                     device    start ms  finish ms     bytes in\n";
  for (std::size_t d = 0; d < placement.steps.size(); ++d) {
    for (const auto& s : placement.steps[d]) {
      if (s.node < 0 || s.kind == PlacedStep::Kind::release) continue;
      const std::string what = (s.kind == PlacedStep::Kind::receive ? "recv " : "") + shown(graph, s.node);
      text +=
          fmt::format("{:40} {:8} {:10.3f} {:10.3f} {:12}\n", what, name(d), s.start * 1e3, s.finish * 1e3, s.bytes_in);
    }
  }
  text += fmt::format("predicted {:.3f} ms with {} transfers\n", placement.makespan * 1e3, placement.transfers);
  for (std::size_t d = 0; d < placement.steps.size(); ++d) {
    const auto cap = options.devices[d].memory_cap;
    text += fmt::format(
        "  {:8} busy {:.3f} ms ({:.0f} %), peak {} bytes of which variables {}{}\n", name(d), placement.busy[d] * 1e3,
        placement.makespan > 0 ? 100 * placement.busy[d] / placement.makespan : 0.0, placement.peak_bytes[d],
        placement.variable_bytes[d], cap > 0 ? fmt::format(", allowed {}", cap) : "");
  }
  return text;
}

}  // namespace starling::graph
