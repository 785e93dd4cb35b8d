#pragma once

#include <map>
#include <string>
#include <vector>

#include "starling/dist/comm/algorithms/cost.h"

namespace starling {

// What decides which algorithm runs. The same on all ranks.
struct ChoiceRules {
  LinkCosts far, near;          // near counts where hosts are known
  std::vector<int> hosts = {};  // of each rank; empty: not known, all links alike
  bool chain = false;           // ranks lie on a chain of links: linear is worth considering
  bool rank_ordered = false;    // only those that reduce in rank order, so that bits equal the serial loop's
  std::map<CommOp, std::string> forced = {};  // by name, whatever they cost
};

struct Choice {
  const Algorithm* algorithm = nullptr;
  std::int64_t segment_bytes = 0;  // for pipelined ones
  bool forced = false;

  struct Candidate {
    std::string_view name;
    double seconds = 0;
    Traffic traffic;  // of rank 0
  };
  std::vector<Candidate> candidates = {};  // all that were considered, the fastest first
};

// The fastest by the model. f16 and bf16 are summed in rank order, so that they round once, unless forced otherwise.
Choice choose(const ScheduleRequest& request, const ChoiceRules& rules, DType dtype, CommReduce reduce);

// all_reduce of 4000000 bytes over 4 ranks: ring, 6 steps, 6000000 bytes sent, 7.5 ms; then direct 7.6 ms, …
std::string describe(const Choice& choice, const ScheduleRequest& request);

}  // namespace starling
