#pragma once

#include <functional>
#include <string>
#include <vector>

#include "starling/graph/graph.h"

namespace starling::graph {

// Device that a graph may be placed on. Predicted times are computed from its speeds.
struct PlacedDevice {
  Device device;
  int threads = 0;              // 0: its share of the program's threads
  std::int64_t memory_cap = 0;  // bytes of variables, values and scratch; 0: no cap
  double flops_per_second = 0;  // 0: estimated from kind and threads
  double bytes_per_second = 0;  // memory bandwidth
};

// Cost of a transfer between devices.
struct LinkCost {
  double latency_seconds = 2e-6;
  double bytes_per_second = 5e9;
};

// Pins the nodes that match a pattern to a device. In a pattern * matches any characters:
//   "net/fc1"      the scope and all below it, and variables of that name ("net.fc1.weight")
//   "op:matmul"    every application of an op
//   "var:*.bias"   variables
// Gradient nodes follow their forward node unless they are named themselves.
struct DeviceConstraint {
  std::string nodes;
  Device device;
};

struct PlacementOptions {
  std::vector<PlacedDevice> devices = {};
  std::vector<DeviceConstraint> constraints = {};
  std::vector<std::vector<std::string>> colocate = {};  // nodes named in one list share a device
  LinkCost link = {};
  double seconds_per_op = 1e-6;  // overhead of every node
  // Measured time of a node on a device; negative: unknown, to be estimated.
  std::function<double(const Graph&, NodeId, const PlacedDevice&)> measured = nullptr;
};

// Constraint class of each node: 0 for none. All nodes of a class share a device, the given one if any.
struct ConstraintClass {
  int device = -1;    // index in PlacementOptions::devices; -1: any
  std::string asked;  // origin of the request: "'net/fc1' on cpu:1"
};
struct ConstraintClasses {
  std::vector<int> of_node;
  std::vector<ConstraintClass> classes{1};
};

// Finds the nodes that constraints, colocations and device scopes name. Throws if a pattern names nothing, a device is
// not in the list, or two constraints contradict each other.
ConstraintClasses find_classes(const Graph& graph, const PlacementOptions& options);

// Facts that placing does not change. `supports` tells whether a device has a kernel for a node; null: all do.
struct PlacementFacts {
  int home = 0;  // device that receives the results
  std::function<bool(const Graph&, NodeId, const PlacedDevice&)> supports = nullptr;
  std::vector<std::int64_t> reserved = {};  // by device: bytes of the cap that values must not use
};

// Step of a device, in order: runs a node, receives a value from another device, or learns that all receivers have
// taken a value it sent.
struct PlacedStep {
  enum class Kind : std::uint8_t { run, receive, release };
  NodeId node = -1;  // node that runs or makes the value; -1: the end of the program
  int output = -1;   // index among the node's outputs; -1: no data, only completion
  Kind kind = Kind::run;
  double start = 0;  // predicted seconds
  double finish = 0;
  std::int64_t bytes_in = 0;  // operands received from other devices
};

struct DevicePlacement {
  std::vector<int> of_node;                    // device index; -1: copied to wherever it is read
  std::vector<std::vector<PlacedStep>> steps;  // by device, in order
  double makespan = 0;                         // predicted seconds
  std::vector<double> busy;
  std::vector<std::int64_t> peak_bytes;  // variables and values
  std::vector<std::int64_t> variable_bytes;
  int transfers = 0;
};

// Chooses a device for every node: by constraint if there is one, else to minimise the simulated makespan within the
// memory of each device. Throws if that is impossible, naming nodes, devices and the excess.
DevicePlacement place(const Graph& graph, const ConstraintClasses& classes, const PlacementOptions& options,
                      const PlacementFacts& facts);

// Table of node, device, start, finish and received bytes, then a summary by device.
std::string explain(const Graph& graph, const DevicePlacement& placement, const PlacementOptions& options);

}  // namespace starling::graph
