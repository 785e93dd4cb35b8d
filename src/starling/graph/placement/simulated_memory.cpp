#include <algorithm>

#include "starling/base/error.h"
#include "starling/graph/placement/simulator_placed.h"

namespace starling::graph {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

}  // namespace

std::vector<std::int64_t> Simulator::variable_bytes(const std::vector<int>& device_of_group) const {
  std::vector<std::int64_t> bytes(at(graph_.devices), 0);
  for (std::size_t g = 0; g < graph_.groups.size(); ++g) bytes[at(device_of_group[g])] += graph_.groups[g].variables;
  return bytes;
}

// A device learns that a value it sent was taken by receiving something that the other side sent afterwards.
std::vector<int> Simulator::releases(const Simulated& from, const Placed& placed) const {
  const int devices = graph_.devices;
  // news[a][b]: positions in a's order of receives from b, and b's position when it sent the latest of them.
  struct News {
    int position;
    int reached;
  };
  std::vector<std::vector<News>> news(at(devices * devices));
  for (int a = 0; a < devices; ++a) {
    const auto& jobs = from.jobs[at(a)];
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      if (!jobs[i].receives) continue;
      const int maker = graph_.values[at(jobs[i].id)].task;
      auto& list = news[at(a * devices + placed.of(maker))];
      const int before = list.empty() ? -1 : list.back().reached;
      list.push_back({static_cast<int>(i), std::max(before, placed.task[at(maker)])});
    }
  }
  std::vector<int> release(graph_.values.size(), -1);
  for (std::size_t v = 0; v < graph_.values.size(); ++v) {
    const int home = placed.of(graph_.values[v].task);
    for (int to = 0; to < devices; ++to) {
      const int taken = placed.received[at(placed.receipt(static_cast<int>(v), to))];
      if (taken < 0) continue;
      const auto& list = news[at(home * devices + to)];
      const auto known = std::find_if(list.begin(), list.end(), [&](const News& n) { return n.reached > taken; });
      const int position = known == list.end() ? static_cast<int>(from.jobs[at(home)].size()) : known->position;
      release[v] = std::max(release[v], position);
    }
  }
  return release;
}

std::vector<int> Simulator::release_positions(const Simulated& from, const std::vector<int>& device_of_group) const {
  Placed placed(graph_, device_of_group);
  placed.find_positions(graph_, from);
  return releases(from, placed);
}

void Simulator::measure_memory(Simulated& simulated, const Placed& given) const {
  Placed placed = given;
  placed.find_positions(graph_, simulated);
  const auto release = releases(simulated, placed);
  struct Change {
    std::int64_t taken = 0;
    std::int64_t freed = 0;
    std::int64_t largest_freed = 0;
  };
  std::vector<std::vector<Change>> changes;
  for (const auto& jobs : simulated.jobs) changes.emplace_back(jobs.size() + 1);
  const auto live = [&](int device, int first, int last, std::int64_t bytes) {
    auto& list = changes[at(device)];
    list[at(first)].taken += bytes;
    list[at(last)].freed += bytes;
    list[at(last)].largest_freed = std::max(list[at(last)].largest_freed, bytes);
  };
  for (std::size_t v = 0; v < graph_.values.size(); ++v) {
    const TaskValue& value = graph_.values[v];
    std::vector<int> last(at(graph_.devices), -1);
    for (int user : value.users) {
      int& l = last[at(placed.of(user))];
      l = std::max(l, placed.task[at(user)]);
    }
    const int home = placed.of(value.task), made = placed.task[at(value.task)];
    const auto sent = release[v] >= 0 ? value.sent_memory : 0;
    live(home, made, std::max({made, last[at(home)], release[v]}), value.memory + sent);
    for (int d = 0; d < graph_.devices; ++d) {
      const int taken = placed.received[at(placed.receipt(static_cast<int>(v), d))];
      if (taken >= 0) live(d, taken, std::max(taken, last[at(d)]), value.bytes);
    }
  }
  simulated.peak.assign(at(graph_.devices), 0);
  for (std::size_t t = 0; t < graph_.groups.size(); ++t) {
    if (graph_.groups[t].tasks.empty()) continue;
    simulated.peak[at(placed.of(graph_.groups[t].tasks[0]))] += graph_.groups[t].variables;
  }
  for (int d = 0; d < graph_.devices; ++d) {
    std::int64_t now = 0, most = 0;
    const auto& jobs = simulated.jobs[at(d)];
    for (std::size_t i = 0; i < changes[at(d)].size(); ++i) {
      const Change& change = changes[at(d)][i];
      const bool reuses = i < jobs.size() && !jobs[i].receives && graph_.tasks[at(jobs[i].id)].reuses_operand;
      now += change.taken;
      most = std::max(most, now - (reuses ? std::min(change.taken, change.largest_freed) : 0));
      now -= change.freed;
    }
    simulated.peak[at(d)] += most;
  }
  count_over(simulated);
}

void Simulator::count_over(Simulated& simulated) const {
  simulated.over = 0;
  for (int d = 0; d < graph_.devices; ++d) {
    const auto cap = graph_.caps[at(d)];
    if (cap > 0) simulated.over += std::max<std::int64_t>(0, simulated.peak[at(d)] - cap);
  }
}

Simulated Simulator::delay_receipts(const Simulated& from, const std::vector<int>& device_of_group,
                                    double slack) const {
  const Placed placed(graph_, device_of_group);
  Simulated best = from;
  check(retime(best), "[placement] expected orders that can be followed, got devices that wait for each other");
  measure_memory(best, placed);
  const double longest = best.makespan * (1 + slack);
  for (std::size_t d = 0; d < from.jobs.size(); ++d) {
    for (const SimulatedJob& receipt : from.jobs[d]) {
      if (!receipt.receives) continue;
      const auto& order = best.jobs[d];
      const auto here = std::find_if(order.begin(), order.end(),
                                     [&](const SimulatedJob& job) { return job.receives && job.id == receipt.id; });
      auto first = here + 1;
      const auto& users = graph_.values[at(receipt.id)].users;
      while (first != order.end() &&
             (first->receives || std::find(users.begin(), users.end(), first->id) == users.end()))
        ++first;
      const auto from_position = here - order.begin(), to_position = first - order.begin() - 1;
      if (to_position == from_position) continue;
      Simulated tried = best;
      auto& jobs = tried.jobs[d];
      std::rotate(jobs.begin() + from_position, jobs.begin() + from_position + 1, jobs.begin() + to_position + 1);
      if (!retime(tried) || tried.makespan > longest) continue;
      measure_memory(tried, placed);
      bool less = false, more = false;
      for (std::size_t i = 0; i < tried.peak.size(); ++i) {
        less |= tried.peak[i] < best.peak[i];
        more |= tried.peak[i] > best.peak[i];
      }
      // A single move may show no gain until several receives have moved: moves that cost nothing are accepted too.
      const bool free = tried.makespan <= best.makespan && !more;
      if (free || (less && !more)) best = std::move(tried);
    }
  }
  return best;
}

}  // namespace starling::graph
