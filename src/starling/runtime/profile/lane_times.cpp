#include "starling/runtime/profile/lane_times.h"

#include <algorithm>

#include "starling/graph/dependencies.h"

namespace starling::runtime {

LaneTimes::LaneTimes(const graph::Graph& graph) : graph_(graph), before_(dependencies(graph)) {
  for (const auto& node : graph.nodes()) lanes_ = std::max(lanes_, static_cast<std::size_t>(node.lane) + 1);
  done_.assign(graph.nodes().size(), LaneClock(lanes_, 0));
  ended_.resize(lanes_);
  sizes_.assign(lanes_, 0);
}

void LaneTimes::reach(graph::NodeId id) {
  LaneClock& clock = done_[static_cast<std::size_t>(id)];
  for (graph::NodeId other : before_[static_cast<std::size_t>(id)])
    merge(clock, done_[static_cast<std::size_t>(other)]);
}

LaneClock LaneTimes::ready(graph::NodeId id) const {
  const graph::Lane lane = graph_.node(id).lane;
  LaneClock clock = done_[static_cast<std::size_t>(id)];
  const auto all_of = [&](std::size_t other) {
    if (!ended_[other].empty()) merge(clock, ended_[other].back());
  };
  all_of(static_cast<std::size_t>(lane));
  for (std::size_t other = 0; is_comm(lane) && other < lanes_; ++other) {
    if (!is_comm(static_cast<graph::Lane>(other))) all_of(other);  // groups of ranks do not wait for each other
  }
  return clock;
}

void LaneTimes::wait(Instruction& instruction, const LaneClock& start) const {
  const auto own = static_cast<std::size_t>(instruction.lane);
  const auto known = [&](std::size_t lane, int count) {
    if (!ended_[own].empty() && ended_[own].back()[lane] >= count) return true;
    for (std::size_t other = 0; other < lanes_; ++other) {
      if (other == lane || other == own || start[other] == 0) continue;
      const LaneClock& brought = ended_[other][static_cast<std::size_t>(start[other]) - 1];
      if (brought[lane] >= count) return true;
    }
    return false;
  };
  for (std::size_t lane = 0; lane < lanes_; ++lane) {
    if (lane == own || start[lane] == 0 || known(lane, start[lane])) continue;
    instruction.waits.push_back({static_cast<graph::Lane>(lane), start[lane]});
  }
}

LaneClock LaneTimes::add(graph::NodeId id, const LaneClock& start) {
  const auto lane = static_cast<std::size_t>(graph_.node(id).lane);
  LaneClock end = start;
  end[lane] = ++sizes_[lane];
  merge(done_[static_cast<std::size_t>(id)], end);
  starts_.push_back(start);
  ended_[lane].push_back(end);
  return end;
}

const LaneClock& LaneTimes::end_of(std::size_t instruction, graph::Lane lane) const {
  const auto own = static_cast<std::size_t>(lane);
  return ended_[own][static_cast<std::size_t>(starts_[instruction][own])];
}

}  // namespace starling::runtime
