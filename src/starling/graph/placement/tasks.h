#pragma once

#include <span>
#include <vector>

#include "starling/graph/placement/placement.h"

namespace starling::graph {

// Task graph of the placer: units of work, their dependencies, and groups that share a device. Constants and views that
// move nothing are not tasks: every device that reads them has its own.
struct Task {
  NodeId node = -1;  // -1: the end of the program, which needs the results
  int group = -1;
  std::vector<int> in;          // values read, each once
  std::vector<int> out;         // values made
  std::vector<int> before;      // tasks that precede this one if on the same device
  bool reuses_operand = false;  // a result may reuse the memory of an operand that dies here
};

struct TaskValue {
  int task = -1;                 // task that makes it
  int output = -1;               // output of the node; -1: no data, only completion of the task
  std::int64_t bytes = 0;        // bytes that a transfer moves
  std::int64_t memory = 0;       // bytes where it is made; 0 for variables, arguments and results
  std::vector<int> users;        // reading tasks
  std::int64_t sent_memory = 0;  // extra bytes there if sent: a copy of a variable that is overwritten
};

// Tasks that share a device.
struct TaskGroup {
  std::vector<int> tasks;
  int device = -1;             // fixed device, -1: any
  std::string asked;           // origin of the request
  std::int64_t variables = 0;  // bytes of variables, which stay on the device
  std::vector<bool> possible;  // by device: has all kernels
};

struct TaskGraph {
  std::vector<Task> tasks;  // in topological order
  std::vector<TaskValue> values;
  std::vector<TaskGroup> groups;
  std::vector<int> task_of_node;             // -1: no task
  std::vector<std::vector<double>> seconds;  // by task and device
  int devices = 0;
  int home = 0;
  LinkCost link;
  std::vector<std::int64_t> caps;  // bytes for variables and values; 0: no cap

  double transfer_seconds(const TaskValue& value) const {
    return link.latency_seconds + static_cast<double>(value.bytes) / link.bytes_per_second;
  }
};

// Builds the task graph. Throws if a group has two fixed devices, or no device has kernels for all of its nodes.
TaskGraph make_tasks(const Graph& graph, const ConstraintClasses& classes, const PlacementOptions& options,
                     const PlacementFacts& facts);

// Second half of make_tasks: groups of tasks, and their possible devices.
void group_tasks(TaskGraph& tasks, const Graph& graph, const ConstraintClasses& classes,
                 const PlacementOptions& options, const PlacementFacts& facts);

// Views that move nothing: the value whose memory each value shares (itself if it is no such view).
struct FreeViews {
  std::vector<ValueId> base;
  std::vector<bool> dense;  // by value: contiguous in memory
};
FreeViews find_free_views(const Graph& graph);

// True for nodes that every reading device duplicates: constants, and views of one operand that are as large as it or
// not dense.
bool is_copied_along(const Graph& graph, const FreeViews& views, NodeId id);

// Maker of an operand, seen through such views; -1: a constant.
NodeId maker_of(const Graph& graph, const FreeViews& views, ValueId id);

double estimated_seconds(const Graph& graph, NodeId id, const PlacedDevice& device, const PlacementOptions& options);

}  // namespace starling::graph
