#pragma once

#include <memory>

#include "starling/dist/launch/launcher/output_forwarder.h"
#include "starling/dist/launch/launcher/supervisor.h"
#include "starling/dist/launch/store/store_server.h"

namespace starling::dist {

inline constexpr int kNoConnection = 255;  // exit code of ssh itself, as opposed to the remote program's

// Facts of a start that all its ranks are told.
struct StartNotice {
  std::string secret{};
  std::string launch{};  // name of the launch, kept by restarts
  int epoch = 0;
};

// Supervises the rank processes of one start, from the first to start to the last to end.
class RankWatch {
 public:
  RankWatch(const LaunchOptions& options, Console& output, Console& error);

  void start(const StoreServer& server, const StartNotice& notice);

  // Runs until all ranks have ended; returns the result of the launch, should this be the last start.
  LaunchEnd run();

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Rank {
    RankSlot slot;
    Child child;
    OutputForwarder output, error;
    std::optional<Time> ended{};
    std::vector<int> sent{};  // signals sent by us
    bool hit = false;         // killed, or its connection lost, and not by us: the cause of what others report
  };

  void wait_for_something();
  void relay();
  bool reap();
  void judge();
  void blame(const Rank& rank);
  bool hear_finding();
  Rank* first_hit();
  void pass_on_stop();
  void signal(Rank& rank, int signal);
  void signal_all(int signal);
  void kill_all();
  void end_others(std::chrono::milliseconds kill_after);
  void end_stragglers();
  bool all_ended() const;
  Rank* first_failure();
  bool may_be_late() const;
  bool was_hit_by_others(const Rank& rank) const;
  bool left_well(const Rank& rank) const;
  bool is_spare(const Rank& rank) const;
  void tell_spare(const Rank& rank);
  RankEnd describe(const Rank& rank) const;

  const LaunchOptions& options_;
  Console& output_;
  Console& error_;
  const StoreServer* server_ = nullptr;
  std::vector<Rank> ranks_;
  std::optional<Time> noticed_;  // when a failure was first noticed
  std::optional<int> failed_;    // index of the first failed rank
  std::string finding_;          // finding of the heartbeats about the blamed rank; empty: it has ended by itself
  bool interrupted_ = false;
  bool killed_ = false;  // SIGKILL has been sent
  int stops_passed_on_ = 0;
  std::optional<Time> kill_at_;
  std::optional<Time> only_spares_since_;  // when the last rank ended that is needed
};

}  // namespace starling::dist
