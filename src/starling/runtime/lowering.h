#pragma once

#include <memory>

#include "starling/runtime/executable.h"
#include "starling/runtime/memory_plan.h"

namespace starling {

// Turns a graph into instructions: views become addresses, updates overwrite their variable, dying operands lend their
// memory to results, and the rest is placed in the arena.
class Lowering {
 public:
  Lowering(Graph graph, const ExecutableOptions& options);
  std::shared_ptr<const Executable> run();

 private:
  // One piece of memory, shared by a value and its views.
  struct Memory {
    Place place;
    std::size_t bytes = 0;
    int first = 0;
    int last = 0;
    bool is_buffer() const { return place.kind == Place::Kind::arena; }
  };
  struct Location {
    int memory = -1;
    std::int64_t offset = 0;  // bytes
    ArgDesc desc;
  };

  void find_views();
  void find_last_uses();
  int completion(NodeId id) const;
  void lower(NodeId id);
  void lower_source(NodeId id);
  bool outlived(NodeId read) const;
  void lower_assign(NodeId id);
  void lower_op(NodeId id);
  void finish_outputs();
  void place_buffers();

  Location& at(ValueId id) { return locations_[static_cast<std::size_t>(id)]; }
  Memory& memory_of(ValueId id) { return memory_[static_cast<std::size_t>(at(id).memory)]; }
  int new_memory(Place place, std::size_t bytes, int step);
  int choose_memory(NodeId id, std::size_t output);
  int variable_target(NodeId id, std::size_t output);
  int dying_operand(NodeId id, std::size_t output);
  bool crosses_assign(int variable, int maker, int assign, int last_read) const;
  bool may_overwrite(const Node& node, const Location& operand) const;
  bool variable_read_after(int variable, int step, bool including) const;
  void emit(NodeId id, const OpDef& op, const Attrs& attrs, std::vector<Location> in, const std::vector<Location>& out);
  void emit_copy(NodeId id, const Location& from, const Location& to);
  Place place(const Location& location) const;
  int wait_of(NodeId id) const;

  std::shared_ptr<Executable> exe_;
  ExecutableOptions options_;
  const Graph& graph_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<ValueId> view_of_;  // the value whose memory this one shares, itself if none
  std::vector<int> last_use_;     // of each root value
  std::vector<int> finished_at_;  // comm nodes: the step by which they have ended
  std::vector<Location> locations_;
  std::vector<Memory> memory_;
  std::vector<std::vector<int>> variable_reads_;  // steps that read each variable's memory
  std::vector<int> variable_memory_;
  std::vector<std::vector<int>> assigns_;  // steps that assign each variable
  std::vector<int> lane_position_;         // of each node within its lane
  int end_ = 0;
};

}  // namespace starling
