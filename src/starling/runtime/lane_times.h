#pragma once

#include <vector>

#include "starling/graph/graph.h"
#include "starling/runtime/executable.h"
#include "starling/runtime/lane_clock.h"

namespace starling {

// What has surely ended on every lane when a node, or an instruction, begins and ends. Instructions are told in the
// order in which they stand in the program.
class LaneTimes {
 public:
  explicit LaneTimes(const Graph& graph);

  std::size_t lanes() const { return lanes_; }
  const std::vector<int>& sizes() const { return sizes_; }  // instructions of each lane so far

  void reach(NodeId id);  // before the first instruction of a node: all that it depends on is known
  // When the node's next instruction may start. Collectives start after all compute that stands before them: the
  // schedule has put them where their operands are made, and memory is freed the sooner.
  LaneClock ready(NodeId id) const;
  // What an instruction that starts then waits for: what is not known to have ended, neither by the instruction before,
  // nor by what another wait brings.
  void wait(Instruction& instruction, const LaneClock& start) const;
  // Adds an instruction of the node; returns when it ends.
  LaneClock add(NodeId id, const LaneClock& start);

  const LaneClock& start_of(std::size_t instruction) const { return starts_[instruction]; }
  const LaneClock& end_of(std::size_t instruction, Lane lane) const;

 private:
  const Graph& graph_;
  std::size_t lanes_ = 1;
  std::vector<std::vector<NodeId>> before_;
  std::vector<LaneClock> done_;                // of each node: what has ended when it has
  std::vector<LaneClock> starts_;              // of each instruction: what has ended when it starts
  std::vector<std::vector<LaneClock>> ended_;  // and when it ends, by lane
  std::vector<int> sizes_;
};

}  // namespace starling
