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

// So many instructions of another lane must have ended.
struct Wait {
  Lane lane = Lane::compute;
  int count = 0;
};

// A kernel call: all decided. It starts when the instruction before it on its lane has ended and its waits are over.
struct Instruction {
  std::string op;
  std::string kernel;
  NodeId node = -1;
  Lane lane = Lane::compute;
  std::shared_ptr<const Plan> plan;
  std::vector<Place> in;
  std::vector<Place> out;
  std::vector<ArgDesc> in_desc;  // how the kernel sees the memory at those places
  std::vector<ArgDesc> out_desc;
  Place scratch;  // in the arena, plan->scratch_bytes long
  std::vector<Wait> waits;
};

// Whether this build proves the memory of every program it makes (runtime/alias_check.h): all that have tests or
// assertions do.
bool checks_by_default();

struct ExecutableOptions {
  int threads = 1;           // of every compute lane
  bool reuse_memory = true;  // off: every value has memory of its own, which tests and debuggers like
  bool reference_only = false;
  bool check_aliases = checks_by_default();
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
  std::size_t demand_bytes() const { return demand_bytes_; }      // the most in use at one instruction: a lower bound
  std::size_t scratch_bytes() const { return scratch_bytes_; }    // the most that one kernel wants, part of the arena
  int lanes() const { return static_cast<int>(lane_size_.size()); }
  int lane_size(Lane lane) const {
    return static_cast<int>(lane) < lanes() ? lane_size_[static_cast<std::size_t>(lane)] : 0;
  }
  const std::vector<int>& assigned() const { return assigned_; }  // variables that a run writes

  std::string explain() const;  // instructions with kernels and lanes, memory

 private:
  friend class Lowering;
  friend class ExecutableEditor;  // tests break programs with it
  Graph graph_;
  std::vector<Instruction> instructions_;
  Device device_;
  int threads_ = 1;
  std::size_t arena_bytes_ = 0;
  std::size_t unshared_bytes_ = 0;
  std::size_t demand_bytes_ = 0;
  std::size_t scratch_bytes_ = 0;
  std::vector<int> lane_size_;
  std::vector<int> assigned_;
};

}  // namespace starling
