#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "starling/dist/launch/hosts.h"
#include "starling/dist/launch/launcher/child.h"

namespace starling::dist {

// Remote shell that gives up a host that does not answer any more.
inline constexpr const char* kSsh = "ssh -o BatchMode=yes -o ServerAliveInterval=5 -o ServerAliveCountMax=3";

struct LaunchOptions {
  std::vector<std::string> argv{};  // command of every rank
  std::vector<RankSlot> slots{};    // slots, one per rank
  std::string address{};            // host or host:port of the rendezvous; empty: loopback
  std::string secret{};             // empty: generated
  std::string backend{};            // value of STARLING_BACKEND; empty: chosen by the ranks
  // Command that starts ranks on other hosts: CMD host 'exec /bin/sh', script on stdin. Runs in the background of the
  // terminal, so it must not prompt.
  std::string ssh = kSsh;
  int max_restarts = 0;
  // Ranks without which the others go on: how they end is told, and is no failure of the job. They get kill_after to
  // end once all others have.
  std::vector<int> spare{};
  std::chrono::milliseconds kill_after{4'000};    // from SIGTERM to SIGKILL, after a rank has failed
  std::chrono::milliseconds stop_within{60'000};  // same after a requested stop: ranks save their state first

  // Signal to forward to all ranks, and how many were received; a second one kills.
  struct Stop {
    int signal = 0;
    int times = 0;
  };
  std::function<Stop()> stop{};  // null: never

  bool prefix = true;         // prefix stdout lines with [rank]; stderr lines always are
  int output = 1, error = 2;  // descriptors that receive all output
};

// End of a rank, with diagnostics.
struct RankEnd {
  RankSlot slot{};
  pid_t pid = 0;
  Exit exit{};
  std::optional<std::int64_t> step{};     // last reported step
  bool step_is_last = false;              // the rank reported `step` when it failed: no further one was made
  std::string finding{};                  // why it was killed, if its heartbeats showed that it was silent or hung
  std::vector<std::string> last_lines{};  // last lines of its stderr
  bool spoke_last = false;                // nothing was shown after them

  // "rank 1 (pid 4711 on host) was killed by SIGKILL, last reported step 37"; without a pid for remote ranks; "after
  // step 37" if that is sure to be the last one. Or the finding.
  std::string text() const;
};

// "worker 1, rank 1 (pid 4711 on alpha)"; without a pid for remote ranks.
std::string name_of(const RankSlot& slot, pid_t pid);

struct LaunchEnd {
  int code = 0;      // exit code of `starling launch`: 0, 1 failure, 2 usage or job error, 130 interrupted
  int restarts = 0;  // number of restarts made
  std::optional<RankEnd> failed{};  // first rank that failed, in the last start
};

// Runs all ranks and supervises them until they have ended. Each is told its rank in STARLING_RANK, STARLING_WORLD,
// STARLING_LOCAL_RANK, STARLING_LOCAL_WORLD, STARLING_ADDRESS, STARLING_SECRET and STARLING_EPOCH, the name of the
// launch, which restarts keep, in STARLING_LAUNCHED, and an equal share of the cores (OMP_NUM_THREADS) unless that is
// set. When one fails, the others get SIGTERM, and SIGKILL after kill_after; the first failing rank is named, and its
// last stderr lines are the last thing written. Then all are started again under a new epoch, up to max_restarts times,
// unless it was a usage error (code 2). Lines of ranks are prefixed with [rank]; if stderr is a terminal, rank 0 draws
// on it itself. A reader of the output that has stopped holds up the ranks that write, not this function, except that a
// good end waits for it. Throws Error if nothing can be started. One caller at a time; no other children of the process
// are touched.
LaunchEnd launch(const LaunchOptions& options);

}  // namespace starling::dist
