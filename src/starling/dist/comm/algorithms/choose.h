#pragma once

#include <map>
#include <string>
#include <vector>

#include "starling/dist/comm/algorithms/cost.h"

namespace starling::dist {

// Inputs of the choice of algorithm; equal on all ranks.
struct ChoiceRules {
  LinkCosts far, near;          // near applies only if hosts are known
  std::vector<int> hosts = {};  // by rank; empty: unknown, all links alike
  bool chain = false;           // ranks lie on a chain of links: linear is worth considering
  bool rank_ordered = false;    // only algorithms that reduce in rank order, bitwise equal to the serial loop
  std::map<CommOp, std::string> forced = {};  // algorithm names, regardless of cost
};

struct Choice {
  const Algorithm* algorithm = nullptr;
  std::int64_t segment_bytes = 0;  // for pipelined algorithms
  bool forced = false;

  struct Candidate {
    std::string_view name;
    double seconds = 0;
    Traffic traffic;  // of rank 0
  };
  std::vector<Candidate> candidates = {};  // all considered, fastest first
};

// Fastest algorithm by the cost model. f16 and bf16 are summed in rank order, so that they round once, unless forced
// otherwise.
Choice choose(const ScheduleRequest& request, const ChoiceRules& rules, DType dtype, ReduceOp reduce);

// all_reduce of 4000000 bytes over 4 ranks: ring, 6 steps, 6000000 bytes sent, 7.5 ms; then direct 7.6 ms, …
std::string describe(const Choice& choice, const ScheduleRequest& request);

}  // namespace starling::dist
