#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "starling/dist/comm/comm.h"

namespace starling {

// What goes wrong on this rank. Operations are counted from 1, collectives and messages together.
struct FaultPlan {
  std::chrono::microseconds slow_start{0};  // this rank is slow: the caller sleeps before it hands on the call
  std::chrono::microseconds latency{0};     // the link is slow: an operation ends no earlier than this after its start
  std::uint64_t every = 1;                  // both only for each every-th operation
  std::uint64_t fail_at = 0;                // this operation breaks the group with an error; 0: none
  std::uint64_t die_at = 0;                 // from this operation on nothing is handed on any more; 0: never
};

// For tests: a rank over any backend that is slow, fails or falls silent as planned. A dead rank's own waits last until
// their deadline and then throw; the group is not told. Parts split from it follow the same plan, counting anew.
std::unique_ptr<Comm> make_faulty(std::unique_ptr<Comm> inner, const FaultPlan& plan);

}  // namespace starling
