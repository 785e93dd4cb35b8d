#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "starling/base/file/file.h"
#include "starling/dist/comm/rank_progress.h"
#include "starling/dist/launch/store/store_line.h"

namespace starling::dist {

struct HeartbeatOptions {
  int rank = 0;
  std::chrono::milliseconds every{2'000};
  std::chrono::milliseconds deadline{300'000};  // for progress; 0: none
  std::string place{};                          // of this process: "pid 4711 on alpha"
  bool served_by_rank0 = false;                 // the rendezvous is a thread of rank 0, so its silence is that rank's
};

// Heartbeats of this rank to the rendezvous, on a thread that does nothing else: it beats while the rank computes, and
// stops when the process does. The rendezvous answers every beat, and tells all ranks at once when it finds one silent
// or hung (health/failure_detector.h); `found` is then called once with that text, on the sender's thread. The silence
// of the rendezvous itself is found here, unless `starling launch` serves it, which may be suspended while its ranks
// run on. `again` makes a new connection where one breaks; null: not now.
class HeartbeatSender {
 public:
  HeartbeatSender(std::unique_ptr<StoreLine> line, HeartbeatOptions options,
                  std::shared_ptr<const RankProgress> rank_progress,
                  std::function<void(const std::string& finding)> found,
                  std::function<std::unique_ptr<StoreLine>()> again = {});
  ~HeartbeatSender();  // says that this rank leaves in good order

  // Called when the rank has left its world in good order and may work on alone for as long as it likes: from now on
  // only its silence counts, and `found` is called with findings, at once with those made before. On return the
  // rendezvous has been told, if it listens, and the function given before is not called any more.
  void leave(std::function<void(const std::string& finding)> found);
  // The process of a rank that has left is about to end and waits for the others to do so.
  void wait_for_the_end();

  // Role of this rank: its name in messages ("server 1"), and whether they go on without it.
  void take_role(std::string role, bool spare);
  std::string finding() const;  // text of the finding; empty: none so far

  HeartbeatSender(const HeartbeatSender&) = delete;
  HeartbeatSender& operator=(const HeartbeatSender&) = delete;

 private:
  using Clock = std::chrono::steady_clock;

  void run();
  void forgive(Clock::time_point now);
  void join_again(Clock::time_point now);
  bool send_beat(Clock::time_point now);
  bool listen(Clock::time_point until);
  void hear();
  void judge_server(Clock::time_point now);
  void tell(const std::string& finding);
  void tell_left();
  void wake();

  std::unique_ptr<StoreLine> line_;  // null: closed, in good order or not
  const HeartbeatOptions options_;
  std::shared_ptr<const RankProgress> rank_progress_;
  mutable std::mutex telling_;  // guards found_, finding_, left_told_, role_ and spare_
  std::condition_variable has_told_;
  std::function<void(const std::string&)> found_;
  std::string finding_;  // empty: none so far
  bool left_told_ = false;
  std::string role_;
  bool spare_ = false;
  std::function<std::unique_ptr<StoreLine>()> again_;
  UniqueFd wake_event_;
  std::atomic<bool> stop_{false}, left_{false}, ending_{false};
  Clock::time_point heard_{}, looked_{};
  std::string server_place_;
  bool over_ = false;  // the rendezvous has said good-bye
  std::thread thread_;
};

}  // namespace starling::dist
