#pragma once

#include <vector>

#include "starling/graph/placement/tasks.h"

namespace starling {

// What one device does next: run a task, or receive a value.
struct Job {
  int id = 0;
  bool receives = false;
  double start = 0;
  double finish = 0;
};

struct Simulated {
  std::vector<std::vector<Job>> jobs;  // of each device, in order
  double makespan = 0;
  std::vector<double> busy;
  std::vector<std::int64_t> peak;  // bytes of variables and values
  std::int64_t over = 0;           // bytes beyond the caps, all devices together
};

// Runs a placed task graph in thought. A device does one thing at a time; sending costs nothing, the receiver copies
// the value when it comes to the receipt, and there is one receipt for all readers of a value on a device.
class Simulator {
 public:
  explicit Simulator(const TaskGraph& graph);

  // The order that every device follows: whatever can start first does, and among those what has most work waiting
  // behind it.
  Simulated schedule(const std::vector<int>& device_of_group) const;

  // The same orders with receipts moved to just before their first use, one by one, where that takes less memory and
  // the whole stays within 1 + `slack` of its time.
  Simulated delay_receipts(const Simulated& from, const std::vector<int>& device_of_group, double slack) const;

  // Where each sent value of a device is no longer needed by its receivers: the position in the device's order after
  // which its memory may be used again; the number of jobs where that is only known at the end. By value; -1: not sent.
  std::vector<int> release_positions(const Simulated& from, const std::vector<int>& device_of_group) const;

  // Variables' bytes on each device.
  std::vector<std::int64_t> variable_bytes(const std::vector<int>& device_of_group) const;

 private:
  struct Placed;
  bool retime(Simulated& simulated) const;
  void measure_memory(Simulated& simulated, const Placed& placed) const;
  std::vector<int> releases(const Simulated& from, const Placed& placed) const;
  std::vector<double> ranks(const Placed& placed) const;
  void count_over(Simulated& simulated) const;

  const TaskGraph& graph_;
  std::vector<std::vector<int>> then_;  // the tasks that name a task in their `before`
  bool capped_ = false;
};

}  // namespace starling
