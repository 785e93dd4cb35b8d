#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "starling/graph/graph.h"
#include "starling/kernels/kernel_table.h"

namespace starling {

// Where a graph runs: on the one device that its values name; those made from nothing follow.
Device program_device(const Graph& graph);

// Where an operand of an instruction is found when the program runs.
struct Place {
  enum class Kind : std::uint8_t { arena, input, variable, constant, output };
  Kind kind = Kind::arena;
  int index = 0;  // which input, variable, …; for the arena: which buffer (resolved into `offset` once planned)
  std::int64_t offset = 0;  // in bytes
  std::int64_t bytes = 0;   // that the operand spans from there
};

// A kernel call: all decided. `wait` counts the instructions of the other lane that must be done before it starts.
struct Instruction {
  std::string op;
  std::string kernel;
  NodeId node = -1;
  Lane lane = Lane::compute;
  std::shared_ptr<const Plan> plan;
  std::vector<Place> in;
  std::vector<Place> out;
  int wait = 0;
};

struct ExecutableOptions {
  int threads = 1;
  bool reuse_memory = true;  // off: every value has memory of its own, which tests and debuggers like
  bool reference_only = false;
  // Kernels of this program alone, asked before the table's; no plan: those of the table.
  std::function<Planned(const PlanRequest&)> own_kernels = nullptr;
};

// A compiled graph: immutable, shared by the instances that run it. Static shapes, one device.
class Executable {
 public:
  static std::shared_ptr<const Executable> build(Graph graph, const ExecutableOptions& options);

  const Graph& graph() const { return graph_; }
  const std::vector<Instruction>& instructions() const { return instructions_; }
  Device device() const { return device_; }
  int threads() const { return threads_; }
  std::size_t arena_bytes() const { return arena_bytes_; }
  std::size_t unshared_bytes() const { return unshared_bytes_; }  // what the values would take without reuse
  std::size_t scratch_bytes(Lane lane) const { return scratch_[static_cast<std::size_t>(lane)]; }
  int lane_size(Lane lane) const { return lane_size_[static_cast<std::size_t>(lane)]; }
  const std::vector<int>& assigned() const { return assigned_; }  // variables that a run writes

  std::string explain() const;  // instructions with kernels and lanes, memory

 private:
  friend class Lowering;
  Graph graph_;
  std::vector<Instruction> instructions_;
  Device device_;
  int threads_ = 1;
  std::size_t arena_bytes_ = 0;
  std::size_t unshared_bytes_ = 0;
  std::size_t scratch_[2] = {0, 0};
  int lane_size_[2] = {0, 0};
  std::vector<int> assigned_;
};

}  // namespace starling
