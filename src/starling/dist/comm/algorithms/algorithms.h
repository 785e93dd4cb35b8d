#pragma once

#include <string_view>
#include <utility>
#include <vector>

#include "starling/dist/comm/algorithms/schedule.h"

namespace starling {

// A way to do some of the collectives: pure functions from what is asked to what one rank does.
struct Algorithm {
  using Maker = Schedule (*)(const ScheduleRequest& request);

  std::string_view name;
  std::string_view law;       // steps and bytes, for people
  bool rank_ordered = false;  // reductions combine in rank order and round once
  std::vector<std::pair<CommOp, Maker>> makers = {};
  bool needs_hosts = false;  // that the host of each rank is known, and that there are several
  bool needs_chain = false;  // worth it only where ranks lie on a chain of links

  Maker maker(CommOp op) const;  // null: not for this op
};

// All there are, in the order in which they win ties. One file each:
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

// Throws Error naming those that do the op when there is none of that name.
const Algorithm& algorithm_named(std::string_view name, CommOp op);

// The schedule of one rank. A world of one copies its own and sends nothing. Throws Error when the algorithm does not
// do the op, or needs hosts that are not given.
Schedule make_schedule(const Algorithm& algorithm, const ScheduleRequest& request);

}  // namespace starling
