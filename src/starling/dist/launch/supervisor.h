#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "starling/dist/launch/child.h"
#include "starling/dist/launch/hosts.h"

namespace starling {

inline constexpr const char* kSsh = "ssh -o BatchMode=yes";

struct LaunchOptions {
  std::vector<std::string> argv{};        // what every rank runs
  std::vector<std::string> again_argv{};  // what it runs after a restart; empty: the same
  std::vector<Seat> seats{};              // one for each rank
  std::string address{};                  // host or host:port of the rendezvous; empty: loopback
  std::string secret{};                   // empty: a fresh one
  std::string backend{};                  // for STARLING_BACKEND; empty: the ranks' own choice
  // Starts ranks on other hosts: CMD host 'exec /bin/sh', script on stdin. It runs in the background of the terminal,
  // so it must not ask for anything.
  std::string ssh = kSsh;
  int max_restarts = 0;
  std::chrono::milliseconds kill_after{4'000};    // from SIGTERM to SIGKILL, once a rank has failed
  std::chrono::milliseconds stop_within{60'000};  // the same once a stop was asked for: ranks save their state first

  // The signal to be passed on to all ranks, and how many have come; a second one kills.
  struct Stop {
    int signal = 0;
    int times = 0;
  };
  std::function<Stop()> stop{};  // null: never

  bool prefix = true;         // whether lines of stdout get [rank] before them; those of stderr always do
  int output = 1, error = 2;  // descriptors that all is written to
};

// How a rank ended, and what is known of it.
struct RankEnd {
  Seat seat{};
  pid_t pid = 0;
  Exit exit{};
  std::optional<std::int64_t> step{};     // the last it told
  std::vector<std::string> last_words{};  // the end of its stderr

  // "rank 1 (pid 4711 on host) was killed by SIGKILL after step 37"; of remote ranks the process is not known
  std::string text() const;
};

struct LaunchEnd {
  int code = 0;      // 0, 1 failure, 2 a wrong call or job, 130 interrupted: what `starling launch` ends with
  int restarts = 0;  // that were needed
  std::optional<RankEnd> failed{};  // the first rank that failed, in the last start
};

// Runs all ranks and watches over them until they have ended. Each is told its place by STARLING_RANK, STARLING_WORLD,
// STARLING_LOCAL_RANK, STARLING_LOCAL_WORLD, STARLING_ADDRESS, STARLING_SECRET and STARLING_EPOCH, and gets an equal
// share of the cores (OMP_NUM_THREADS) unless it is set. When one fails, the others get SIGTERM, and SIGKILL after
// kill_after; the first failing rank is named, and its own last words are the last thing written. Then all are started
// again under a new epoch, as often as max_restarts says, unless the call was wrong (code 2). Lines of ranks come out
// with [rank] before them; where stderr is a terminal, rank 0 draws on it itself. Throws Error when nothing can be
// started. One caller at a time; no other children of the process are touched.
LaunchEnd launch(const LaunchOptions& options);

}  // namespace starling
