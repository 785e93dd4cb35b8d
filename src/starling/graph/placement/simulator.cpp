#include "starling/graph/placement/simulator.h"

#include <algorithm>
#include <queue>

#include "starling/graph/placement/simulator_placed.h"

namespace starling::graph {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

}  // namespace

Simulator::Simulator(const TaskGraph& graph) : graph_(graph), then_(graph.tasks.size()) {
  for (std::size_t t = 0; t < graph.tasks.size(); ++t) {
    for (int first : graph.tasks[t].before) then_[at(first)].push_back(static_cast<int>(t));
  }
  for (auto cap : graph.caps) capped_ |= cap > 0;
}

// By task: seconds from its start to the end of the program along the longest path, without queues.
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
  SimulatedJob job;
};
struct Sooner {
  bool operator()(const Waiting& a, const Waiting& b) const { return a.key > b.key; }
};
// Among equal ranks receives come first (they unblock others), then program order.
struct MoreUrgent {
  bool operator()(const Waiting& a, const Waiting& b) const {
    if (a.key != b.key) return a.key < b.key;
    if (a.job.receives != b.job.receives) return b.job.receives;
    return a.job.id > b.job.id;
  }
};

// Jobs of one device that are ready, by urgency, and those ready later, by time.
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
  const auto push = [&](int device, SimulatedJob job, double time) { queues[at(device)].later.push({time, job}); };
  const auto rank_of = [&](const SimulatedJob& job, int device) {
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
      const SimulatedJob job = queue.later.top().job;
      queue.later.pop();
      queue.ready.push({rank_of(job, device), job});
    }
    SimulatedJob job = queue.ready.top().job;
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

// Computes the times of given orders. False on deadlock.
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
        SimulatedJob& job = jobs[next[d]];
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

}  // namespace starling::graph
