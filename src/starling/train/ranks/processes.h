#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "starling/dist/comm/comm.h"
#include "starling/dist/launch/rank_info.h"

namespace starling::train {

// True if this process was started as one of several. Throws if that is specified incompletely.
bool among_processes(const dist::ProcessFlags& flags);

// The joined world of processes; see join_world.
struct Processes {
  std::shared_ptr<const void> world{};  // destroyed last
  std::shared_ptr<Comm> comm{};
  int here = 1;                                        // processes on this host
  std::function<void(std::int64_t step)> stepped{};    // reports this process's progress to the supervisor
  std::function<void(std::string_view why)> failed{};  // reports its failure, before the other processes fail
  // True on another rank than 0 if rank 0 calls this with the same text, which it then tells for all. Waits some
  // seconds for rank 0 to do so.
  std::function<bool(const std::string& problem)> told_by_first{};
  // Tells the supervision what this process is for the others: its name in messages ("server 1"), and whether they go
  // on without it.
  std::function<void(const std::string& role, bool spare)> take_role{};
  // Communicator of some of the ranks, which all call this with the same name: independent of the world's, so that what
  // breaks it breaks nothing else, and unsupervised. Blocks until they have met.
  std::function<std::shared_ptr<Comm>(const std::string& name, int rank, int size)> part{};
  int local_rank = 0;                      // of this process among those of its host
  std::function<std::string()> finding{};  // text of the supervision's finding; empty: none so far
};

struct JoinOptions {
  std::string backend = "auto";     // or a name
  bool check = true;                // verify that ranks call matching collectives
  std::string all_reduce = "auto";  // or a name
  double heartbeat = 2;             // seconds; 0: no supervision
  double deadline = 300;            // seconds for progress that others wait for; 0: none
  std::function<bool()> stop{};     // polled while the others are awaited; true: throws Interrupted
};
Processes join_processes(const dist::ProcessFlags& flags, const JoinOptions& options);

}  // namespace starling::train
