#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>

#include "starling/graph/placement/search.h"

namespace starling::graph {
namespace {

// Random tasks: each reads up to three earlier ones; results are needed on device 0.
TaskGraph random_tasks(std::mt19937& random, int count, int devices) {
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  TaskGraph graph;
  graph.devices = devices;
  graph.caps.assign(static_cast<std::size_t>(devices), 0);
  graph.link = {1e-3 * draw(0, 3), 1e6};
  const bool alike = draw(0, 1) == 0;
  const int heavy = draw(0, 8000);  // bytes: up to 8 ms of transfer
  for (int t = 0; t <= count; ++t) {
    const bool end = t == count;
    Task task;
    task.node = end ? -1 : t;
    task.group = t;
    std::vector<int> read;
    for (int i = draw(0, 3); i > 0 && t > 0 && !end; --i) read.push_back(draw(std::max(0, t - 4), t - 1));
    if (end) {
      for (int v = 0; v < count; ++v) {
        if (graph.values[static_cast<std::size_t>(v)].users.empty()) read.push_back(v);
      }
    }
    std::sort(read.begin(), read.end());
    read.erase(std::unique(read.begin(), read.end()), read.end());
    for (int v : read) {
      task.in.push_back(v);
      graph.values[static_cast<std::size_t>(v)].users.push_back(t);
    }
    if (!end) {
      task.out.push_back(t);
      const auto bytes = draw(0, heavy);
      graph.values.push_back({t, 0, bytes, bytes, {}, 0});
    }
    std::vector<double> seconds(static_cast<std::size_t>(devices), end ? 0.0 : 1e-3 * draw(1, 10));
    for (auto& s : seconds) s *= end || alike ? 1.0 : 0.5 * draw(1, 6);
    graph.seconds.push_back(seconds);
    graph.tasks.push_back(task);
    graph.groups.push_back({{t}, end ? 0 : -1, "", 0, std::vector<bool>(static_cast<std::size_t>(devices), true)});
    if (end) {
      for (int d = 1; d < devices; ++d) graph.groups.back().possible[static_cast<std::size_t>(d)] = false;
    }
  }
  return graph;
}

// Shortest makespan of all placements within the memory; infinite if there is none.
double brute_force(const TaskGraph& graph, const Simulator& simulator) {
  std::vector<int> placed(graph.groups.size(), 0);
  double best = std::numeric_limits<double>::infinity();
  const std::size_t free = placed.size() - 1;  // the end is fixed
  while (true) {
    const Simulated simulated = simulator.schedule(placed);
    if (simulated.over == 0) best = std::min(best, simulated.makespan);
    std::size_t i = 0;
    while (i < free && ++placed[i] == graph.devices) placed[i++] = 0;
    if (i == free) return best;
  }
}

TEST(PlacementSearch, IsWithin30PercentOfTheBestOfAllPlacementsOfSmallGraphs) {
  std::mt19937 random(11);
  double worst = 1;
  int split = 0;
  for (int trial = 0; trial < 500; ++trial) {
    const int devices = trial % 3 == 2 ? 3 : 2;
    const int count = devices == 2 ? 3 + trial % 6 : 3 + trial % 4;
    const TaskGraph graph = random_tasks(random, count, devices);
    const Simulator simulator(graph);
    const double best = brute_force(graph, simulator);
    const auto chosen = search_devices(graph, simulator, {});
    const double found = simulator.schedule(chosen).makespan;
    EXPECT_LE(found, 1.3 * best) << "graph " << trial;
    EXPECT_GE(found, best * (1 - 1e-9));
    worst = std::max(worst, found / best);
    split += std::adjacent_find(chosen.begin(), chosen.end(), std::not_equal_to<>()) != chosen.end();
  }
  EXPECT_GT(split, 100) << "few of the graphs gain anything from a second device";
  RecordProperty("worst", fmt::format("{}", worst));
}

// Shortest makespan over all placements and all task orders, without heuristics. A copy is received when the task that
// needs it runs.
class EveryOrder {
 public:
  explicit EveryOrder(const TaskGraph& graph) : graph_(graph) {}

  double shortest() {
    placed_.assign(graph_.tasks.size(), -1);
    ended_.assign(graph_.tasks.size(), 0);
    got_.assign(graph_.values.size() * static_cast<std::size_t>(graph_.devices), -1);
    free_.assign(static_cast<std::size_t>(graph_.devices), 0);
    next(0);
    return best_;
  }

 private:
  bool ready(const Task& task) const {
    return std::all_of(task.in.begin(), task.in.end(), [&](int v) {
      return placed_[static_cast<std::size_t>(graph_.values[static_cast<std::size_t>(v)].task)] >= 0;
    });
  }

  void next(double makespan) {
    if (makespan >= best_) return;
    bool all = true;
    for (std::size_t t = 0; t < graph_.tasks.size(); ++t) {
      if (placed_[t] >= 0) continue;
      all = false;
      if (!ready(graph_.tasks[t])) continue;
      for (int d = 0; d < graph_.devices; ++d) {
        if (!graph_.groups[t].possible[static_cast<std::size_t>(d)]) continue;
        run(t, d, makespan);
      }
    }
    if (all) best_ = std::min(best_, makespan);
  }

  void run(std::size_t t, int d, double makespan) {
    const auto free = free_;
    const auto got = got_;
    double& clock = free_[static_cast<std::size_t>(d)];
    for (int v : graph_.tasks[t].in) {
      const TaskValue& value = graph_.values[static_cast<std::size_t>(v)];
      const auto maker = static_cast<std::size_t>(value.task);
      double& here = got_[static_cast<std::size_t>(v * graph_.devices + d)];
      if (placed_[maker] == d || here >= 0) continue;
      here = clock = std::max(clock, ended_[maker]) + graph_.transfer_seconds(value);
    }
    placed_[t] = d;
    ended_[t] = clock += graph_.seconds[t][static_cast<std::size_t>(d)];
    next(std::max(makespan, ended_[t]));
    placed_[t] = -1;
    free_ = free;
    got_ = got;
  }

  const TaskGraph& graph_;
  std::vector<int> placed_;
  std::vector<double> ended_, got_, free_;
  double best_ = std::numeric_limits<double>::infinity();
};

TEST(PlacementSearch, IsWithin30PercentOfTheBestOfAllPlacementsAndOrders) {
  std::mt19937 random(31);
  double worst = 1;
  for (int trial = 0; trial < 300; ++trial) {
    const TaskGraph graph = random_tasks(random, 3 + trial % 3, trial % 4 == 3 ? 3 : 2);
    const Simulator simulator(graph);
    const double found = simulator.schedule(search_devices(graph, simulator, {})).makespan;
    const double best = EveryOrder(graph).shortest();
    EXPECT_LE(found, 1.3 * best) << "graph " << trial;
    worst = std::max(worst, found / best);
  }
  RecordProperty("worst", fmt::format("{}", worst));
}

// Memory caps that, half of the time, do not fit everything on one device.
TEST(PlacementSearch, FindsAPlacementWithinTheMemoryWhereThereIsOneAndItIsNearTheBest) {
  std::mt19937 random(23);
  int tight = 0;
  for (int trial = 0; trial < 200; ++trial) {
    TaskGraph graph = random_tasks(random, 4 + trial % 4, 2);
    std::int64_t total = 0;
    for (auto& group : graph.groups) {
      group.variables = group.device < 0 ? std::uniform_int_distribution<int>(0, 4000)(random) : 0;
      total += group.variables;
    }
    for (auto& cap : graph.caps) cap = std::uniform_int_distribution<std::int64_t>(total / 2, 2 * total + 1000)(random);
    const Simulator simulator(graph);
    const double best = brute_force(graph, simulator);
    if (best == std::numeric_limits<double>::infinity()) continue;
    tight += simulator.schedule(std::vector<int>(graph.groups.size(), 0)).over > 0;
    const Simulated found = simulator.schedule(search_devices(graph, simulator, {}));
    EXPECT_EQ(found.over, 0) << "graph " << trial;
    EXPECT_LE(found.makespan, 1.3 * best) << "graph " << trial;
  }
  EXPECT_GT(tight, 30);
}

TEST(PlacementSearch, IsNeverWorseThanTheBestSingleDevice) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 10; ++trial) {
    const TaskGraph graph = random_tasks(random, 60, 3);
    const Simulator simulator(graph);
    const double alone = simulator.schedule(std::vector<int>(graph.groups.size(), 0)).makespan;
    EXPECT_LE(simulator.schedule(search_devices(graph, simulator, {})).makespan, alone * (1 + 1e-9));
  }
}

TEST(PlacementSearch, UsesBothDevicesForIndependentWork) {
  std::mt19937 random(1);
  TaskGraph graph = random_tasks(random, 8, 2);
  graph.link = {1e-6, 1e9};
  for (auto& task : graph.tasks) task.in.clear();
  for (auto& value : graph.values) value.users.clear();
  for (auto& seconds : graph.seconds) seconds = {4e-3, 4e-3};
  const Simulator simulator(graph);
  const Simulated simulated = simulator.schedule(search_devices(graph, simulator, {}));
  EXPECT_NEAR(simulated.busy[0], simulated.busy[1], 5e-3);
}

TEST(PlacementSearch, TheSameGraphIsAlwaysPlacedAlike) {
  std::mt19937 random(9);
  const TaskGraph graph = random_tasks(random, 40, 3);
  const Simulator simulator(graph);
  EXPECT_EQ(search_devices(graph, simulator, {}), search_devices(graph, simulator, {}));
}

}  // namespace
}  // namespace starling::graph
