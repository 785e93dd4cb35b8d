#pragma once

#include <vector>

#include "starling/graph/placement/simulator.h"

namespace starling::graph {

// Devices of tasks, and positions of jobs in the orders of their devices.
struct Simulator::Placed {
  Placed(const TaskGraph& graph, const std::vector<int>& device_of_group) : devices(graph.devices) {
    device.reserve(graph.tasks.size());
    for (const Task& task : graph.tasks) device.push_back(device_of_group[static_cast<std::size_t>(task.group)]);
  }

  int of(int task) const { return device[static_cast<std::size_t>(task)]; }
  int receipt(int value, int to) const { return value * devices + to; }

  void find_positions(const TaskGraph& graph, const Simulated& simulated) {
    task.assign(graph.tasks.size(), -1);
    received.assign(graph.values.size() * static_cast<std::size_t>(devices), -1);
    for (int d = 0; d < devices; ++d) {
      const auto& jobs = simulated.jobs[static_cast<std::size_t>(d)];
      for (std::size_t i = 0; i < jobs.size(); ++i) {
        int& position = jobs[i].receives ? received[static_cast<std::size_t>(receipt(jobs[i].id, d))]
                                         : task[static_cast<std::size_t>(jobs[i].id)];
        position = static_cast<int>(i);
      }
    }
  }

  int devices;
  std::vector<int> device;
  std::vector<int> task;      // position of each task
  std::vector<int> received;  // position of each receive; -1: none
};

}  // namespace starling::graph
