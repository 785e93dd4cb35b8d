#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "starling/dist/comm/comm.h"

namespace starling {

// What goes wrong on this rank. Operations are counted from 1, collectives and messages together; 0 stands for none.
struct FaultPlan {
  enum class Death : std::uint8_t {
    silent,  // the rank stays but nothing is handed on any more: a hung process, a lost machine
    exit,    // the process ends at once, without a goodbye: _exit(kExitCode)
    signal   // the process kills itself with SIGKILL
  };
  static constexpr int kExitCode = 70;

  std::chrono::microseconds slow_start{0};  // this rank is slow: the caller sleeps before it hands on the call
  std::chrono::microseconds latency{0};     // the link is slow: an operation ends no earlier than this after its start
  std::uint64_t every = 1;                  // both only for each every-th operation
  double slow_factor = 1;                   // the rank computes this many times slower: sleeps in proportion to the
                                            // time since its last call ended
  std::uint64_t drop_at = 0;                // this operation is never handed on: a silent loss
  std::uint64_t corrupt_at = 0;             // a bit of what this operation brings is flipped once it has ended
  std::uint64_t fail_at = 0;                // this operation breaks the group with an error
  std::uint64_t die_at = 0;                 // from this operation on the rank is dead
  Death death = Death::silent;
};

// For tests: a rank over any backend that is slow, loses or damages what it is given, fails or falls silent as planned.
// A silently dead rank's own waits last until their deadline and then throw, and so does the wait for a lost operation;
// the group is not told. Parts split from it follow the same plan, counting anew.
std::unique_ptr<Comm> make_faulty(std::unique_ptr<Comm> inner, const FaultPlan& plan);

}  // namespace starling
