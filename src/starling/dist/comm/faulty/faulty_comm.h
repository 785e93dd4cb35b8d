#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "starling/dist/comm/comm.h"

namespace starling::dist {

// Faults to inject on this rank. Operations are counted from 1, collectives and messages together; 0: none.
struct FaultPlan {
  enum class Death : std::uint8_t {
    silent,  // the rank stays, but its calls are no longer forwarded: a hung process, a lost machine
    exit,    // the process ends at once, without cleanup: _exit(kExitCode)
    signal   // the process kills itself with SIGKILL
  };
  static constexpr int kExitCode = 70;

  std::chrono::microseconds slow_start{0};  // slow rank: the caller sleeps before the call is forwarded
  std::chrono::microseconds latency{0};     // slow link: an operation ends no earlier than this after its start
  std::uint64_t every = 1;                  // applies both delays to each every-th operation only
  double slow_factor = 1;                   // slow compute: sleeps in proportion to the time since its last call ended
  std::uint64_t drop_at = 0;                // number of an operation that is never forwarded: a silent loss
  std::uint64_t corrupt_at = 0;             // one bit of this operation's result is flipped once it has ended
  std::uint64_t fail_at = 0;                // number of an operation that breaks the group with an error
  std::uint64_t die_at = 0;                 // the rank is dead from this operation on
  Death death = Death::silent;
};

// Test decorator over any backend: a rank that is slow, loses or damages data, fails or falls silent as planned. A
// silently dead rank's own waits last until their deadline and then throw, without telling the group; waits for a lost
// operation also last until the deadline. Groups split from it follow the same plan, counting anew.
std::unique_ptr<Comm> make_faulty(std::unique_ptr<Comm> inner, const FaultPlan& plan);

}  // namespace starling::dist
