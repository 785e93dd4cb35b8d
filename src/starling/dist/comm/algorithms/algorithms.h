#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "starling/dist/comm/algorithms/schedule.h"

namespace starling::dist {

// Implementation of some collectives: pure functions from a request to the schedule of one rank.
struct Algorithm {
  using Maker = Schedule (*)(const ScheduleRequest& request);

  std::string_view name;
  std::string_view law;       // steps and bytes, for display
  bool rank_ordered = false;  // reductions combine in rank order and round once
  std::vector<std::pair<CommOp, Maker>> makers = {};
  bool needs_hosts = false;  // requires known hosts, at least two
  bool needs_chain = false;  // only useful if ranks lie on a chain of links

  Maker maker(CommOp op) const;  // null: op not supported
};

// Available algorithms, in the order in which they win ties. One file each:
Algorithm one_shot_algorithm();
Algorithm direct_algorithm();
Algorithm recursive_doubling_algorithm();
Algorithm halving_doubling_algorithm();
Algorithm ring_algorithm();
Algorithm hierarchical_algorithm();
Algorithm linear_algorithm();
Algorithm binomial_algorithm();
Algorithm chain_algorithm();
Algorithm pairwise_algorithm();
Algorithm dissemination_algorithm();

const std::vector<Algorithm>& algorithms();

// Algorithm by name; throws Error listing the algorithms for the op if there is none of that name.
const Algorithm& algorithm_named(std::string_view name, CommOp op);

// Schedule of one rank. A world of one only copies locally. Throws Error if the algorithm does not support the op, or
// needs hosts that are not given.
Schedule make_schedule(const Algorithm& algorithm, const ScheduleRequest& request);

}  // namespace starling::dist
