#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "starling/dist/comm/comm.h"
#include "starling/dist/launch/rank_info.h"
#include "starling/dist/launch/store/store.h"

namespace starling::dist {
class HeartbeatSender;
}

namespace starling {

struct WorldOptions {
  std::string backend = "";                // auto or a name of comm_backends(); empty: STARLING_BACKEND, else auto
  std::filesystem::path secret_file = {};  // empty: STARLING_SECRET, or the file in STARLING_SECRET_FILE
  std::chrono::milliseconds join_deadline{60'000};  // for all ranks to join
  // A rank that misses three heartbeats (stopped, cut off, dead) is named by all others, also while they compute. 0: no
  // supervision, for debuggers: waits for other ranks then last as long as they take.
  std::chrono::milliseconds heartbeat{2'000};
  // A rank that others wait for and that neither finishes a call nor reports progress for so long is named. 0: never.
  std::chrono::milliseconds deadline{300'000};
  std::chrono::milliseconds call_deadline{0};  // limit of every call that sets none; 0: `deadline` alone counts
  bool checking = true;                        // compare the call fingerprints of all ranks
  std::function<bool()> stop = {};             // polled while ranks meet; true: throws Error; null: never
  std::string all_reduce = "";                 // algorithm name, run over messages between all ranks; empty: any
};

// World this process has joined. A process started alone gets a world of one, whose communicator works like any other.
// Members are ordered for destruction: later ones depend on earlier ones and go first.
struct World {
  dist::RankInfo info{};    // local_rank and local_world count ranks that really share the host
  std::uint64_t epoch = 0;  // number of restarts of all ranks so far
  std::string
      backend{};       // name of the backend, threads (alone), shared+gloo: in memory inside hosts, Gloo between them
  std::string host{};  // name of this host
  struct Ties;         // rendezvous server and connection, if any
  std::shared_ptr<Ties> ties{};
  std::shared_ptr<Store> store{};
  std::shared_ptr<Comm> comm{};
  std::shared_ptr<dist::HeartbeatSender> heartbeats{};  // null: not supervised

  bool alone() const { return info.world == 1; }
  bool leads() const { return info.rank == 0; }  // the rank that writes files and prints

  // Communicator of some of the ranks, who all call this with the same name: independent of the world's, so that what
  // breaks one does not break the other, and unsupervised: a call there lasts as long as options.deadline. `part_info`
  // is this rank's among them. Collective.
  std::shared_ptr<Comm> part(const dist::RankInfo& part_info, const std::string& name,
                             const WorldOptions& options) const;

  // Reports this rank's step to `starling launch`, for its message should the rank die. Cheap enough for every step:
  // most calls only store the number. Under another launcher the step appears in the rank's own final message.
  void report_step(std::int64_t step) const;

  // Reports that this rank works on something that others wait for, such as an epoch of pre-training or a batch of an
  // evaluation: it is not hung (WorldOptions::deadline). Any thread; costs nothing.
  void report_progress() const;

  // Reports to `starling launch` that this rank has failed, before others fail because of it, so that the right rank is
  // named. Call it when handling an error, before the communicator is aborted or destroyed. Under another launcher the
  // rank itself writes its last step to stderr.
  void report_failure(std::string_view why) const;
};

// Makes this process a rank: finds its rank (find_rank_info), meets the others at the rendezvous and connects. Errors
// of this thread carry the rank from then on. Blocks until all ranks have joined. Throws Error if the rank is told only
// in part, if the address is beyond this host and there is no secret, or if ranks are missing at the deadline; the
// message names the address and the missing ranks.
World join_world(const dist::ProcessFlags& flags = {}, const WorldOptions& options = {});

}  // namespace starling
