#pragma once

#include <memory>

#include "starling/runtime/executable.h"
#include "starling/runtime/lane_clock.h"
#include "starling/runtime/memory_plan.h"

namespace starling {

// Turns a graph into instructions: views become addresses, updates overwrite their variable, dying operands lend their
// memory to results, and the rest is placed in the arena. On every lane it is known which instructions of the others
// have ended by then: an instruction waits for those that its node depends on and for those that touched memory it
// overwrites.
class Lowering {
 public:
  Lowering(Graph graph, const ExecutableOptions& options);
  std::shared_ptr<const Executable> run();

 private:
  // One piece of memory, shared by a value and its views.
  struct Memory {
    Place place;
    std::size_t bytes = 0;
    int needed_until = 0;  // the last node that reads a value lying here
    int first = -1;        // instructions, in the order they were emitted
    int last = -1;
    LaneClock born;      // what had ended when the first of them began
    LaneClock written;   // up to the last that wrote here
    LaneClock touched;   // up to the last that read or wrote here
    bool apart = false;  // shares with nothing: in use when a run returns
    bool is_buffer() const { return place.kind == Place::Kind::arena; }
  };
  struct Location {
    int memory = -1;
    std::int64_t offset = 0;  // bytes
    ArgDesc desc;
  };

  void find_views();
  void find_last_uses();
  void find_late();
  void lower(NodeId id);
  void lower_source(NodeId id);
  bool outlived(NodeId read) const;
  void lower_assign(NodeId id);
  void lower_op(NodeId id);
  void finish_outputs();
  void place_buffers();

  Location& at(ValueId id) { return locations_[static_cast<std::size_t>(id)]; }
  Memory& memory_of(ValueId id) { return memory_[static_cast<std::size_t>(at(id).memory)]; }
  int new_memory(Place place, std::size_t bytes, NodeId maker);
  int choose_memory(NodeId id, std::size_t output);
  int variable_target(NodeId id, std::size_t output);
  int dying_operand(NodeId id, std::size_t output);
  bool crosses_assign(int variable, int maker, int assign, int last_read) const;
  bool may_overwrite(const Node& node, const Location& operand) const;
  bool variable_read_between(int variable, int step, bool including, int assign) const;
  void emit(NodeId id, const OpDef& op, const Attrs& attrs, std::vector<Location> in, const std::vector<Location>& out);
  void emit_copy(NodeId id, const Location& from, const Location& to);
  Place place(const Location& location) const;
  LaneClock depends_on(NodeId id) const;
  LaneClock ready(NodeId id) const;
  void wait(Instruction& instruction, const LaneClock& start) const;
  void touch(int memory, bool writes, const LaneClock& start, const LaneClock& end);
  std::vector<BufferUse> value_uses(std::vector<int>& index_of) const;
  std::vector<BufferUse> scratch_uses(bool shared) const;
  void resolve(const MemoryPlan& plan, const std::vector<int>& index_of, std::size_t values, bool shared);

  std::shared_ptr<Executable> exe_;
  ExecutableOptions options_;
  const Graph& graph_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<ValueId> view_of_;  // the value whose memory this one shares, itself if none
  std::vector<int> last_use_;     // of each root value
  std::vector<Location> locations_;
  std::vector<Memory> memory_;
  std::vector<std::vector<int>> variable_reads_;  // steps that read each variable's memory
  std::vector<int> variable_memory_;
  std::vector<std::vector<int>> assigns_;  // steps that assign each variable
  std::vector<bool> outlasting_;           // nodes whose operands and scratch are in use when a run returns
  std::vector<bool> apart_;                // such operands
  std::vector<std::vector<NodeId>> before_;
  std::vector<LaneClock> done_;                // of each node: what has ended when it has
  std::vector<LaneClock> starts_;              // of each instruction: what has ended when it starts
  std::vector<std::vector<LaneClock>> ended_;  // and when it ends, by lane
  std::size_t lanes_ = 1;
  int end_ = 0;
};

}  // namespace starling
