#pragma once

#include <functional>
#include <string>
#include <vector>

#include "starling/graph/graph.h"

namespace starling {

// One device that a graph may be placed on. The speeds are what its predicted times are made of.
struct PlacedDevice {
  Device device;
  int threads = 0;              // 0: its share of the program's
  std::int64_t memory_cap = 0;  // bytes of variables, values and scratch; 0: none
  double flops_per_second = 0;  // 0: by its kind and threads
  double bytes_per_second = 0;  // of its own memory
};

// What a tensor takes from one device to another.
struct LinkCost {
  double latency_seconds = 2e-6;
  double bytes_per_second = 5e9;
};

// Nodes are named by patterns, in which * stands for any characters:
//   "net/fc1"      the scope and all below it, and variables of that name ("net.fc1.weight")
//   "op:matmul"    every application of an op
//   "var:*.bias"   variables
// A gradient follows what it is the gradient of unless it is named itself.
struct DeviceConstraint {
  std::string nodes;
  Device device;
};

struct PlacementOptions {
  std::vector<PlacedDevice> devices = {};
  std::vector<DeviceConstraint> constraints = {};
  std::vector<std::vector<std::string>> colocate = {};  // all that one list names shares a device
  LinkCost link = {};
  double seconds_per_op = 1e-6;  // of every node, beside its work
  // The measured time of a node on a device; negative: not known, to be estimated.
  std::function<double(const Graph&, NodeId, const PlacedDevice&)> measured = nullptr;
};

// Which constraint each node of a graph is under: 0 for none. All nodes of a class share a device, the one given if
// any.
struct ConstraintClass {
  int device = -1;    // position in PlacementOptions::devices, -1: any
  std::string asked;  // by whom: "'net/fc1' on cpu:1"
};
struct ConstraintClasses {
  std::vector<int> of_node;
  std::vector<ConstraintClass> classes{1};
};

// Finds the nodes that constraints, colocations and device scopes name. Throws where a pattern names nothing, a device
// is not among those given, or two constraints contradict each other.
ConstraintClasses find_classes(const Graph& graph, const PlacementOptions& options);

// What is fixed besides the constraints. `supports` says whether a device has a kernel for a node; empty: all have all.
struct PlacementFacts {
  int home = 0;  // where the results are wanted
  std::function<bool(const Graph&, NodeId, const PlacedDevice&)> supports = nullptr;
  std::vector<std::int64_t> reserved = {};  // bytes of each cap that must stay free of values
};

// One thing a device does, in its order: it runs a node, receives a value made elsewhere, or learns that a value it
// sent has been taken by all.
struct PlacedStep {
  enum class Kind : std::uint8_t { run, receive, release };
  NodeId node = -1;  // the node that runs, or that makes the value; -1: the end, where results are wanted
  int output = -1;   // which of the node's values; -1 where only the news is wanted
  Kind kind = Kind::run;
  double start = 0;  // seconds, predicted
  double finish = 0;
  std::int64_t bytes_in = 0;  // operands that came from other devices
};

struct DevicePlacement {
  std::vector<int> of_node;                    // position of the device; -1: copied to wherever it is read
  std::vector<std::vector<PlacedStep>> steps;  // of each device, in order
  double makespan = 0;                         // seconds, predicted
  std::vector<double> busy;
  std::vector<std::int64_t> peak_bytes;  // variables and values
  std::vector<std::int64_t> variable_bytes;
  int transfers = 0;
};

// Chooses a device for every node: by constraint where there is one, else so that the simulated program ends early and
// stays within the memory of each device. Throws where that cannot be, naming nodes, devices and by how much.
DevicePlacement place(const Graph& graph, const ConstraintClasses& classes, const PlacementOptions& options,
                      const PlacementFacts& facts);

// Node, device, start, finish and bytes that had to come over, then a summary by device.
std::string explain(const Graph& graph, const DevicePlacement& placement, const PlacementOptions& options);

}  // namespace starling
