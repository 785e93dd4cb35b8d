#pragma once

#include <memory>

#include "starling/dist/launch/relay.h"
#include "starling/dist/launch/store_server.h"
#include "starling/dist/launch/supervisor.h"

namespace starling {

inline constexpr int kNoConnection = 255;  // what ssh ends with when it is not the program's own

// The ranks of one start, from the first process to the last.
class RankWatch {
 public:
  RankWatch(const LaunchOptions& options, Console& output, Console& error);

  void start(const StoreServer& server, const std::string& secret, int epoch);

  // Until all have ended; what the launch would end with.
  LaunchEnd run();

 private:
  using Time = std::chrono::steady_clock::time_point;
  struct Rank {
    Seat seat;
    Child child;
    Relay output, error;
    std::optional<Time> ended{};
  };

  void wait_for_something();
  void relay();
  bool reap();
  void judge();
  void pass_on_stop();
  void signal(Rank& rank, int signal);
  void signal_all(int signal);
  void end_others(std::chrono::milliseconds kill_after);
  bool all_ended() const;
  Rank* first_failure();
  bool may_be_late(const Rank& first) const;
  bool left_well(const Rank& rank) const;
  RankEnd describe(const Rank& rank) const;

  const LaunchOptions& options_;
  Console& output_;
  Console& error_;
  const StoreServer* server_ = nullptr;
  std::vector<Rank> ranks_;
  std::optional<Time> noticed_;  // that some rank has failed
  std::optional<int> failed_;    // index of the first
  bool interrupted_ = false;
  int stops_passed_on_ = 0;
  std::optional<Time> kill_at_;
};

}  // namespace starling
