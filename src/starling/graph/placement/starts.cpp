#include "starling/graph/placement/starts.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace starling::graph {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

class Starts {
 public:
  explicit Starts(const TaskGraph& graph) : graph_(graph) {}

  int first_possible(const TaskGroup& group) const {
    const auto it = std::find(group.possible.begin(), group.possible.end(), true);
    return static_cast<int>(it - group.possible.begin());
  }

  // All groups on one device: no transfers, no overlap.
  std::vector<int> all_on(int device) const {
    std::vector<int> placed;
    for (const auto& group : graph_.groups)
      placed.push_back(group.possible[at(device)] ? device : first_possible(group));
    return placed;
  }

  // Longest path first, each task where it would end first; its group follows.
  std::vector<int> earliest_finish() const {
    const auto order = by_rank();
    std::vector<int> placed(graph_.groups.size(), -1);
    for (std::size_t g = 0; g < graph_.groups.size(); ++g) placed[g] = graph_.groups[g].device;
    std::vector<double> free(at(graph_.devices), 0), ended(graph_.tasks.size(), 0);
    std::vector<std::int64_t> variables(at(graph_.devices), 0);
    for (std::size_t g = 0; g < placed.size(); ++g) {
      if (placed[g] >= 0) variables[at(placed[g])] += graph_.groups[g].variables;
    }
    for (int t : order) {
      const Task& task = graph_.tasks[at(t)];
      const TaskGroup& group = graph_.groups[at(task.group)];
      const auto finish_on = [&](int d) {
        double start = free[at(d)];
        for (int v : task.in) {
          const TaskValue& value = graph_.values[at(v)];
          const int from = placed[at(graph_.tasks[at(value.task)].group)];
          start = std::max(start, ended[at(value.task)] + (from == d ? 0 : graph_.transfer_seconds(value)));
        }
        return start + graph_.seconds[at(t)][at(d)];
      };
      int& chosen = placed[at(task.group)];
      if (chosen < 0) {
        double best = std::numeric_limits<double>::infinity();
        for (int d = 0; d < graph_.devices; ++d) {
          if (!group.possible[at(d)]) continue;
          const auto cap = graph_.caps[at(d)];
          const bool fits = cap == 0 || variables[at(d)] + group.variables <= cap;
          const double finish = finish_on(d) + (fits ? 0 : 1e9);
          if (finish < best) {
            best = finish;
            chosen = d;
          }
        }
        variables[at(chosen)] += group.variables;
      }
      ended[at(t)] = free[at(chosen)] = finish_on(chosen);
    }
    return placed;
  }

  // Fills one device after the other in program order, each up to its share of the memory; late tasks (the gradients)
  // go where most of their operands are.
  std::vector<int> fill() const {
    std::vector<double> weight(graph_.groups.size(), 0);
    double total = 0;
    for (std::size_t g = 0; g < graph_.groups.size(); ++g) {
      weight[g] = static_cast<double>(graph_.groups[g].variables);
      for (int t : graph_.groups[g].tasks) {
        for (int v : graph_.tasks[at(t)].out) weight[g] += static_cast<double>(graph_.values[at(v)].memory);
      }
      total += weight[g];
    }
    double room = 0;
    std::vector<double> share(at(graph_.devices));
    for (int d = 0; d < graph_.devices; ++d) {
      share[at(d)] = graph_.caps[at(d)] > 0 ? static_cast<double>(graph_.caps[at(d)]) : total;
      room += share[at(d)];
    }
    std::vector<int> placed(graph_.groups.size(), -1);
    std::vector<double> used(at(graph_.devices), 0);
    const auto put = [&](std::size_t g, int d) {
      placed[g] = d;
      used[at(d)] += weight[g];
    };
    for (std::size_t g = 0; g < graph_.groups.size(); ++g) {
      if (graph_.groups[g].device >= 0) put(g, graph_.groups[g].device);
    }
    int device = 0;
    for (const Task& task : graph_.tasks) {
      const auto g = at(task.group);
      if (placed[g] >= 0) continue;
      while (device + 1 < graph_.devices && used[at(device)] + weight[g] > total * share[at(device)] / room) ++device;
      put(g, graph_.groups[g].possible[at(device)] ? device : first_possible(graph_.groups[g]));
    }
    return placed;
  }

  // Every task where most of its operands are, with variables distributed by size.
  std::vector<int> follow_variables() const {
    std::vector<int> placed(graph_.groups.size(), -1);
    std::vector<std::int64_t> used(at(graph_.devices), 0);
    for (std::size_t g = 0; g < graph_.groups.size(); ++g) {
      placed[g] = graph_.groups[g].device;
      if (placed[g] >= 0) used[at(placed[g])] += graph_.groups[g].variables;
    }
    for (std::size_t g = 0; g < graph_.groups.size(); ++g) {
      const TaskGroup& group = graph_.groups[g];
      if (placed[g] >= 0 || group.variables == 0) continue;
      double best = std::numeric_limits<double>::infinity();
      for (int d = 0; d < graph_.devices; ++d) {
        if (!group.possible[at(d)]) continue;
        const auto cap = graph_.caps[at(d)];
        const double full = static_cast<double>(used[at(d)] + group.variables) / static_cast<double>(cap > 0 ? cap : 1);
        if (full < best) {
          best = full;
          placed[g] = d;
        }
      }
      used[at(placed[g])] += group.variables;
    }
    for (const Task& task : graph_.tasks) {
      const auto g = at(task.group);
      if (placed[g] >= 0) continue;
      std::vector<std::int64_t> near(at(graph_.devices), 0);
      for (int v : task.in) {
        const int from = placed[at(graph_.tasks[at(graph_.values[at(v)].task)].group)];
        near[at(from)] += graph_.values[at(v)].bytes;
      }
      int chosen = first_possible(graph_.groups[g]);
      for (int d = 0; d < graph_.devices; ++d) {
        if (graph_.groups[g].possible[at(d)] && near[at(d)] > near[at(chosen)]) chosen = d;
      }
      placed[g] = chosen;
    }
    return placed;
  }

 private:
  std::vector<int> by_rank() const {
    std::vector<double> rank(graph_.tasks.size(), 0);
    for (int t = static_cast<int>(graph_.tasks.size()) - 1; t >= 0; --t) {
      const auto& seconds = graph_.seconds[at(t)];
      double after = 0;
      for (int v : graph_.tasks[at(t)].out) {
        const TaskValue& value = graph_.values[at(v)];
        // On average some of the readers are elsewhere.
        const double way = graph_.transfer_seconds(value) * (graph_.devices - 1) / graph_.devices;
        for (int user : value.users) after = std::max(after, way + rank[at(user)]);
      }
      rank[at(t)] = after + std::accumulate(seconds.begin(), seconds.end(), 0.0) / graph_.devices;
    }
    std::vector<int> order(graph_.tasks.size());
    std::iota(order.begin(), order.end(), 0);
    // Makers rank at least as high as their readers and precede them.
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return rank[at(a)] > rank[at(b)]; });
    return order;
  }

  const TaskGraph& graph_;
};

}  // namespace

std::vector<std::vector<int>> starting_placements(const TaskGraph& graph) {
  const Starts starts(graph);
  std::vector<std::vector<int>> all{starts.earliest_finish()};
  for (int d = 0; d < graph.devices; ++d) all.push_back(starts.all_on(d));
  if (std::any_of(graph.caps.begin(), graph.caps.end(), [](auto cap) { return cap > 0; })) {
    all.push_back(starts.fill());
    all.push_back(starts.follow_variables());
  }
  return all;
}

}  // namespace starling::graph
