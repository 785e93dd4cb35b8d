#include "starling/graph/placement/simulator.h"

#include <algorithm>
#include <queue>

#include "starling/base/error.h"

namespace starling {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

}  // namespace

// Devices of tasks, and where jobs stand in the orders of their devices.
struct Simulator::Placed {
  Placed(const TaskGraph& graph, const std::vector<int>& device_of_group) : devices(graph.devices) {
    device.reserve(graph.tasks.size());
    for (const Task& task : graph.tasks) device.push_back(device_of_group[at(task.group)]);
  }

  int of(int task) const { return device[at(task)]; }
  int receipt(int value, int to) const { return value * devices + to; }

  void find_positions(const TaskGraph& graph, const Simulated& simulated) {
    task.assign(graph.tasks.size(), -1);
    received.assign(graph.values.size() * at(devices), -1);
    for (int d = 0; d < devices; ++d) {
      const auto& jobs = simulated.jobs[at(d)];
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        int& position = jobs[i].receives ? received[at(receipt(jobs[i].id, d))] : task[at(jobs[i].id)];
        position = static_cast<int>(i);
      }
    }
  }

  int devices;
  std::vector<int> device;
  std::vector<int> task;      // position of each task
  std::vector<int> received;  // and of each receipt; -1: there is none
};

Simulator::Simulator(const TaskGraph& graph) : graph_(graph), then_(graph.tasks.size()) {
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    for (int first : graph.tasks[t].before) then_[at(first)].push_back(static_cast<int>(t));
  }
  for (auto cap : graph.caps) capped_ |= cap > 0;
}

// Seconds from the start of each task to the end of the program along the longest way, were there no queues.
std::vector<double> Simulator::ranks(const Placed& placed) const {
  std::vector<double> rank(graph_.tasks.size(), 0);
  for (int t = static_cast<int>(graph_.tasks.size()) - 1; t >= 0; --t) {
    double after = 0;
    for (int v : graph_.tasks[at(t)].out) {
      const TaskValue& value = graph_.values[at(v)];
      for (int user : value.users) {
        const double way = placed.of(user) == placed.of(t) ? 0 : graph_.transfer_seconds(value);
        after = std::max(after, way + rank[at(user)]);
      }
    }
    for (int next : then_[at(t)]) {
      if (placed.of(next) == placed.of(t)) after = std::max(after, rank[at(next)]);
    }
    rank[at(t)] = after + graph_.seconds[at(t)][at(placed.of(t))];
  }
  return rank;
}

namespace {

struct Waiting {
  double key;
  Job job;
};
struct Sooner {
  bool operator()(const Waiting& a, const Waiting& b) const { return a.key > b.key; }
};
// Of equal ranks receipts come first (they let others go on), then what stood earlier.
struct MoreUrgent {
  bool operator()(const Waiting& a, const Waiting& b) const {
    if (a.key != b.key) return a.key < b.key;
    if (a.job.receives != b.job.receives) return b.job.receives;
    return a.job.id > b.job.id;
  }
};

// The jobs of one device that could run now, by urgency, and those that will be possible later, by time.
struct Queue {
  std::priority_queue<Waiting, std::vector<Waiting>, MoreUrgent> ready;
  std::priority_queue<Waiting, std::vector<Waiting>, Sooner> later;
  double free = 0;

  bool empty() const { return ready.empty() && later.empty(); }
  double next_start() const { return ready.empty() ? std::max(free, later.top().key) : free; }
};

}  // namespace

Simulated Simulator::schedule(const std::vector<int>& device_of_group) const {
  const Placed placed(graph_, device_of_group);
  const auto rank = ranks(placed);
  const auto count = graph_.tasks.size();
  Simulated made;
  made.jobs.resize(at(graph_.devices));
  made.busy.assign(at(graph_.devices), 0);
  std::vector<Queue> queues(at(graph_.devices));
  std::vector<int> missing(count, 0);
  std::vector<double> ready_at(count, 0);
  const auto push = [&](int device, Job job, double time) { queues[at(device)].later.push({time, job}); };
  const auto rank_of = [&](const Job& job, int device) {
    if (!job.receives) return rank[at(job.id)];
    double most = 0;
    for (int user : graph_.values[at(job.id)].users) {
      if (placed.of(user) == device) most = std::max(most, rank[at(user)]);
    }
    return most + graph_.transfer_seconds(graph_.values[at(job.id)]);
  };
  const auto less_missing = [&](int task, double time) {
    ready_at[at(task)] = std::max(ready_at[at(task)], time);
    if (--missing[at(task)] == 0) push(placed.of(task), {task, false}, ready_at[at(task)]);
  };
  for (std::size_t t = 0; t < count; ++t) {
    const Task& task = graph_.tasks[t];
    missing[t] = static_cast<int>(task.in.size());
    for (int first : task.before) missing[t] += placed.of(first) == placed.device[t];
    if (missing[t] == 0) push(placed.device[t], {static_cast<int>(t), false}, 0);
  }
  const auto arrive = [&](int v, int device, double time) {
    for (int user : graph_.values[at(v)].users) {
      if (placed.of(user) == device) less_missing(user, time);
    }
  };
  const auto finish_task = [&](int t, int device, double time) {
    for (int v : graph_.tasks[at(t)].out) {
      arrive(v, device, time);
      std::uint64_t sent = 0;
      for (int user : graph_.values[at(v)].users) {
        const int to = placed.of(user);
        if (to == device || ((sent >> to) & 1)) continue;
        sent |= std::uint64_t{1} << to;
        push(to, {v, true}, time);
      }
    }
    for (int next : then_[at(t)]) {
      if (placed.of(next) == device) less_missing(next, time);
    }
  };
  while (true) {
    int device = -1;
    for (int d = 0; d < graph_.devices; ++d) {
      if (queues[at(d)].empty()) continue;
      if (device < 0 || queues[at(d)].next_start() < queues[at(device)].next_start()) device = d;
    }
    if (device < 0) break;
    Queue& queue = queues[at(device)];
    const double start = queue.next_start();
    while (!queue.later.empty() && queue.later.top().key <= start) {
      const Job job = queue.later.top().job;
      queue.later.pop();
      queue.ready.push({rank_of(job, device), job});
    }
    Job job = queue.ready.top().job;
    queue.ready.pop();
    const double seconds =
        job.receives ? graph_.transfer_seconds(graph_.values[at(job.id)]) : graph_.seconds[at(job.id)][at(device)];
    job.start = start;
    job.finish = queue.free = start + seconds;
    made.jobs[at(device)].push_back(job);
    made.busy[at(device)] += seconds;
    made.makespan = std::max(made.makespan, job.finish);
    if (job.receives)
      arrive(job.id, device, job.finish);
    else
      finish_task(job.id, device, job.finish);
  }
  if (capped_) measure_memory(made, placed);
  return made;
}

// Times of given orders. False where they wait for each other.
bool Simulator::retime(Simulated& simulated) const {
  std::vector<std::size_t> next(simulated.jobs.size(), 0);
  std::vector<double> free(simulated.jobs.size(), 0);
  std::vector<double> ended(graph_.tasks.size(), -1);
  std::size_t left = 0;
  for (const auto& jobs : simulated.jobs) left += jobs.size();
  simulated.makespan = 0;
  while (left > 0) {
    bool moved = false;
    for (std::size_t d = 0; d < simulated.jobs.size(); ++d) {
      auto& jobs = simulated.jobs[d];
      while (next[d] < jobs.size()) {
        Job& job = jobs[next[d]];
        double start = free[d], seconds = 0;
        if (job.receives) {
          const TaskValue& value = graph_.values[at(job.id)];
          if (ended[at(value.task)] < 0) break;
          start = std::max(start, ended[at(value.task)]);
          seconds = graph_.transfer_seconds(value);
        } else {
          seconds = graph_.seconds[at(job.id)][d];
        }
        job.start = start;
        job.finish = free[d] = start + seconds;
        if (!job.receives) ended[at(job.id)] = job.finish;
        simulated.makespan = std::max(simulated.makespan, job.finish);
        ++next[d];
        --left;
        moved = true;
      }
    }
    if (!moved) return false;
  }
  return true;
}

std::vector<std::int64_t> Simulator::variable_bytes(const std::vector<int>& device_of_group) const {
  std::vector<std::int64_t> bytes(at(graph_.devices), 0);
  for (std::size_t g = 0; g < graph_.groups.size(); ++g) bytes[at(device_of_group[g])] += graph_.groups[g].variables;
  return bytes;
}

// A device that has received something the other side sent after taking a value knows that the value has been taken.
std::vector<int> Simulator::releases(const Simulated& from, const Placed& placed) const {
  const int devices = graph_.devices;
  // news[a][b]: positions in a's order of receipts from b, and how far b had come when it sent the latest of them.
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
    live(home, made, std::max({made, last[at(home)], release[v]}), value.memory);
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
    for (const Job& receipt : from.jobs[d]) {
      if (!receipt.receives) continue;
      const auto& order = best.jobs[d];
      const auto here = std::find_if(order.begin(), order.end(),
                                     [&](const Job& job) { return job.receives && job.id == receipt.id; });
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
      // A device alone may not notice until several receipts have moved: what costs nothing at all is done as well.
      const bool free = tried.makespan <= best.makespan && !more;
      if (free || (less && !more)) best = std::move(tried);
    }
  }
  return best;
}

}  // namespace starling
