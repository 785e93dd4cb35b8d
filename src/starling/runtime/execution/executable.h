#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "starling/graph/graph.h"
#include "starling/graph/program_options.h"
#include "starling/kernels/kernel.h"

namespace starling::kernels {
struct Planned;
}

namespace starling::runtime {

// Device of a graph: the only one that its values name; nodes without operands follow.
Device program_device(const graph::Graph& graph);

// Location of an instruction's operand at run time.
struct Address {
  enum class Kind : std::uint8_t { arena, input, variable, constant, output };
  Kind kind = Kind::arena;
  int index = 0;  // index of the input, variable, …; for the arena: of the buffer, until resolved into `offset`
  std::int64_t offset = 0;  // bytes
  std::int64_t bytes = 0;   // bytes that the operand spans
};

// Wait until `count` instructions of another lane have ended.
struct Wait {
  graph::Lane lane = graph::Lane::compute;
  int count = 0;
};

// Kernel call with everything decided. Starts when the instruction before it on its lane has ended and its waits are
// over.
struct Instruction {
  std::string op;
  std::string kernel;
  graph::NodeId node = -1;
  graph::Lane lane = graph::Lane::compute;
  std::shared_ptr<const kernels::Plan> plan;
  std::vector<Address> in;
  std::vector<Address> out;
  std::vector<kernels::ArgDesc> in_desc;  // shape and strides at those addresses
  std::vector<kernels::ArgDesc> out_desc;
  Address scratch;  // in the arena; plan->scratch_bytes long
  std::vector<Wait> waits;
};

// Kernels of one program alone, tried before the kernel table; a result without plan falls back to the table.
using OwnKernels = std::function<kernels::Planned(const kernels::PlanRequest&)>;

// Options of lowering, for a program and the bodies in it.
struct ExecutableOptions {
  graph::ProgramOptions program = {};
  OwnKernels own_kernels = nullptr;
};

// Compiled graph: immutable, shared by the instances that run it. Static shapes, one device.
class Executable {
 public:
  static std::shared_ptr<const Executable> build(graph::Graph graph, const graph::ProgramOptions& options,
                                                 OwnKernels own_kernels = nullptr);

  const graph::Graph& graph() const { return graph_; }
  const std::vector<Instruction>& instructions() const { return instructions_; }
  Device device() const { return device_; }
  int threads() const { return threads_; }  // of each compute lane
  std::size_t arena_bytes() const { return arena_bytes_; }
  std::size_t unshared_bytes() const { return unshared_bytes_; }  // bytes of all values without reuse
  std::size_t demand_bytes() const { return demand_bytes_; }      // maximum in use at one instruction: a lower bound
  std::size_t scratch_bytes() const { return scratch_bytes_; }    // maximum of one kernel, part of the arena
  int lanes() const { return static_cast<int>(lane_size_.size()); }
  int lane_size(graph::Lane lane) const {
    return static_cast<int>(lane) < lanes() ? lane_size_[static_cast<std::size_t>(lane)] : 0;
  }
  // On a GPU: steps that share no memory are branches of its recorded graph (branches above 1).
  bool side_by_side() const { return side_by_side_; }
  const std::vector<int>& assigned() const { return assigned_; }  // variables that a run writes

  std::string explain() const;  // instructions with kernels and lanes, memory

 private:
  friend class Lowering;
  friend class ExecutableEditor;  // tests corrupt programs with it
  graph::Graph graph_;
  std::vector<Instruction> instructions_;
  Device device_;
  int threads_ = 1;
  std::size_t arena_bytes_ = 0;
  std::size_t unshared_bytes_ = 0;
  std::size_t demand_bytes_ = 0;
  std::size_t scratch_bytes_ = 0;
  std::vector<int> lane_size_;
  bool side_by_side_ = false;
  std::vector<int> assigned_;
};

}  // namespace starling::runtime
