#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "starling/train/workers/direct_line.h"

namespace starling::train {

// Watch of a server over the leader of its run, with which it has no other line: asks it now and then for a sign of
// life, on a thread of its own.
class LeaderWatch {
 public:
  LeaderWatch(std::shared_ptr<dist::ps::Wire> wire, LeaderLineOptions options);
  ~LeaderWatch();
  LeaderWatch(const LeaderWatch&) = delete;
  LeaderWatch& operator=(const LeaderWatch&) = delete;

  bool gone() const { return gone_; }  // any thread

 private:
  void watch();

  std::chrono::milliseconds every_;
  ControlCall call_;
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;
  std::atomic<bool> gone_{false};
  std::thread thread_;
};

}  // namespace starling::train
