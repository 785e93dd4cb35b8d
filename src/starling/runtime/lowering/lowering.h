#pragma once

#include <map>
#include <memory>

#include "starling/runtime/execution/executable.h"
#include "starling/runtime/lowering/stored_values.h"
#include "starling/runtime/memory/memory_plan.h"
#include "starling/runtime/memory/value_lives.h"
#include "starling/runtime/profile/lane_times.h"

namespace starling::runtime {

// Lowers a graph to instructions: views become addresses, updates overwrite their variable, dying operands lend their
// memory to results, and the rest is placed in the arena. An instruction waits for those of other lanes that its node
// depends on or that touched memory it overwrites, unless they are known to have ended.
class Lowering {
 public:
  Lowering(graph::Graph graph, const ExecutableOptions& options);
  std::shared_ptr<const Executable> run();

 private:
  // Memory shared by a value and its views.
  struct Memory {
    Address address;
    std::size_t bytes = 0;
    int needed_until = 0;  // last node that reads a value lying here
    int first = -1;        // instructions, in the order of emission
    int last = -1;
    LaneClock born;     // clock when the first instruction starts
    LaneClock written;  // clock after the last write
    LaneClock touched;  // clock after the last read or write
    bool is_buffer() const { return address.kind == Address::Kind::arena; }
  };
  struct Location {
    int memory = -1;
    std::int64_t offset = 0;  // bytes
    kernels::ArgDesc desc;
  };

  void lower(graph::NodeId id);
  void lower_source(graph::NodeId id);
  void lower_assign(graph::NodeId id);
  void lower_op(graph::NodeId id);
  void finish_outputs();
  void place_buffers();

  Location& at(graph::ValueId id) { return locations_[static_cast<std::size_t>(id)]; }
  Memory& memory_of(graph::ValueId id) { return memory_[static_cast<std::size_t>(at(id).memory)]; }
  int new_memory(Address address, std::size_t bytes, graph::NodeId maker);
  int choose_memory(graph::NodeId id, std::size_t output);
  int joined_memory(graph::NodeId id, graph::ValueId whole);
  int variable_target(graph::NodeId id, std::size_t output);
  int dying_operand(graph::NodeId id, std::size_t output);
  bool may_overwrite(const graph::Node& node, const Location& operand) const;
  void emit(graph::NodeId id, const OpDef& op, const Attrs& attrs, std::vector<Location> in,
            const std::vector<Location>& out);
  void emit_copy(graph::NodeId id, const Location& from, const Location& to);
  Address address_of(const Location& location) const;
  void touch(int memory, bool writes, const LaneClock& start, const LaneClock& end);
  // Addresses in the arena (memory/arena_addresses.cpp).
  bool keeps_apart() const;
  std::vector<BufferUse> value_uses(std::vector<int>& index_of) const;
  std::vector<BufferUse> scratch_uses(bool shared) const;
  void resolve(const MemoryPlan& plan, const std::vector<int>& index_of, std::size_t values, bool shared);

  std::shared_ptr<Executable> exe_;
  ExecutableOptions options_;
  const graph::Graph& graph_;
  StoredValues stored_;
  ValueLives lives_;
  LaneTimes times_;
  std::vector<std::vector<graph::NodeId>> users_;
  std::vector<Location> locations_;
  std::vector<Memory> memory_;
  std::vector<int> variable_memory_;
  std::map<graph::ValueId, int> joined_memory_;  // of the results of concats whose operands lie in them
};

}  // namespace starling::runtime
