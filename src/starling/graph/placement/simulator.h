#pragma once

#include <vector>

#include "starling/graph/placement/tasks.h"

namespace starling::graph {

// Work of a simulated device: a task to run, or a value to receive.
struct SimulatedJob {
  int id = 0;
  bool receives = false;
  double start = 0;
  double finish = 0;
};

struct Simulated {
  std::vector<std::vector<SimulatedJob>> jobs;  // by device, in order
  double makespan = 0;
  std::vector<double> busy;
  std::vector<std::int64_t> peak;  // bytes of variables and values
  std::int64_t over = 0;           // bytes beyond the caps, summed over devices
};

// Simulates a placed task graph. A device does one job at a time; sending is free, the receiver copies the value in a
// receive job, and there is one receive for all readers of a value on a device.
class Simulator {
 public:
  explicit Simulator(const TaskGraph& graph);

  // List schedule for every device: the job that can start first; among equals the one with the longest remaining path.
  Simulated schedule(const std::vector<int>& device_of_group) const;

  // The same schedule with receives moved to just before their first use, one by one, where that takes less memory and
  // the makespan stays within a factor of 1 + `slack`.
  Simulated delay_receipts(const Simulated& from, const std::vector<int>& device_of_group, double slack) const;

  // By value: position in the sender's order after which its memory may be reused, since all receivers have taken it;
  // the number of jobs if that is only known at the end; -1: not sent.
  std::vector<int> release_positions(const Simulated& from, const std::vector<int>& device_of_group) const;

  // Bytes of variables on each device.
  std::vector<std::int64_t> variable_bytes(const std::vector<int>& device_of_group) const;

 private:
  struct Placed;
  bool retime(Simulated& simulated) const;
  void measure_memory(Simulated& simulated, const Placed& placed) const;
  std::vector<int> releases(const Simulated& from, const Placed& placed) const;
  std::vector<double> ranks(const Placed& placed) const;
  void count_over(Simulated& simulated) const;

  const TaskGraph& graph_;
  std::vector<std::vector<int>> then_;  // by task: tasks that list it in their `before`
  bool capped_ = false;
};

}  // namespace starling::graph
