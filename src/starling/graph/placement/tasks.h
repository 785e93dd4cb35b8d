#pragma once

#include <span>
#include <vector>

#include "starling/graph/placement/placement.h"

namespace starling {

// The graph as a placer sees it: work, what each piece of work waits for, and which pieces go together.
// Constants, and views that move nothing, are no work: every device that reads them has its own.
struct Task {
  NodeId node = -1;  // -1: the end of the program, where the results are wanted
  int group = -1;
  std::vector<int> in;          // values, each once
  std::vector<int> out;         // values
  std::vector<int> before;      // tasks that come earlier if they run on the same device
  bool reuses_operand = false;  // a result may take the memory of an operand that dies here
};

struct TaskValue {
  int task = -1;                 // that makes it
  int output = -1;               // of the node; -1: no data, only that the task has ended
  std::int64_t bytes = 0;        // that a transfer moves
  std::int64_t memory = 0;       // that it takes where it is made: none for variables, arguments and results
  std::vector<int> users;        // tasks
  std::int64_t sent_memory = 0;  // that it takes there besides where it is sent: a copy of a variable that gets another
};

// Tasks that share a device.
struct TaskGroup {
  std::vector<int> tasks;
  int device = -1;             // fixed
  std::string asked;           // by whom
  std::int64_t variables = 0;  // bytes that stay on the device
  std::vector<bool> possible;  // by device
};

struct TaskGraph {
  std::vector<Task> tasks;  // in an order in which they may run
  std::vector<TaskValue> values;
  std::vector<TaskGroup> groups;
  std::vector<int> task_of_node;             // -1: none
  std::vector<std::vector<double>> seconds;  // of each task on each device
  int devices = 0;
  int home = 0;
  LinkCost link;
  std::vector<std::int64_t> caps;  // 0: none; for variables and values

  double transfer_seconds(const TaskValue& value) const {
    return link.latency_seconds + static_cast<double>(value.bytes) / link.bytes_per_second;
  }
};

// Throws where a group has two fixed devices, or none with kernels for all of its nodes.
TaskGraph make_tasks(const Graph& graph, const ConstraintClasses& classes, const PlacementOptions& options,
                     const PlacementFacts& facts);

// The second half of the work: who goes together, and where groups may go.
void group_tasks(TaskGraph& tasks, const Graph& graph, const ConstraintClasses& classes,
                 const PlacementOptions& options, const PlacementFacts& facts);

// Which values are views that move nothing, and the value whose memory they share (itself where it is none).
struct FreeViews {
  std::vector<ValueId> base;
  std::vector<bool> dense;  // by value: contiguous where it lies
};
FreeViews find_free_views(const Graph& graph);

// Nodes that every device which reads them has for itself: constants, and views of one operand that are as large as it
// or not dense.
bool is_copied_along(const Graph& graph, const FreeViews& views, NodeId id);

// The node whose result an operand is once such views are seen through; -1: a constant.
NodeId maker_of(const Graph& graph, const FreeViews& views, ValueId id);

double estimated_seconds(const Graph& graph, NodeId id, const PlacedDevice& device, const PlacementOptions& options);
std::int64_t byte_size(const TensorType& type);

}  // namespace starling
