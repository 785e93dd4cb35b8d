#pragma once

#include <vector>

#include "starling/graph/graph.h"
#include "starling/runtime/execution/executable.h"
#include "starling/runtime/execution/lane_clock.h"

namespace starling::runtime {

// Vector clocks of nodes and instructions: what has surely ended on every lane when each starts and ends. Instructions
// are added in program order.
class LaneTimes {
 public:
  explicit LaneTimes(const graph::Graph& graph);

  std::size_t lanes() const { return lanes_; }
  const std::vector<int>& sizes() const { return sizes_; }  // instructions of each lane so far

  void reach(graph::NodeId id);  // call before the node's first instruction; computes what the node depends on
  // Earliest start of the node's next instruction. Collectives start after all compute before them: the schedule places
  // them where their operands are made, and memory is freed sooner.
  LaneClock ready(graph::NodeId id) const;
  // Adds the waits of an instruction with this start: those implied neither by the previous instruction of its lane nor
  // by another wait.
  void wait(Instruction& instruction, const LaneClock& start) const;
  // Adds an instruction of the node; returns its end.
  LaneClock add(graph::NodeId id, const LaneClock& start);

  const LaneClock& start_of(std::size_t instruction) const { return starts_[instruction]; }
  const LaneClock& end_of(std::size_t instruction, graph::Lane lane) const;

 private:
  const graph::Graph& graph_;
  std::size_t lanes_ = 1;
  std::vector<std::vector<graph::NodeId>> before_;
  std::vector<LaneClock> done_;                // by node: clock at its end
  std::vector<LaneClock> starts_;              // by instruction: clock at its start
  std::vector<std::vector<LaneClock>> ended_;  // by lane and position: clock at the end
  std::vector<int> sizes_;
};

}  // namespace starling::runtime
