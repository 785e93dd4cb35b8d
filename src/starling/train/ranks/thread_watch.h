#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "starling/dist/comm/comm.h"

namespace starling::train {

// Supervision of ranks that are threads of this process, which cannot fall silent one by one: only progress is watched
// (dist/health/failure_detector.h). A rank that others wait for and that makes none for the deadline breaks the
// communicators of all; a thread cannot be ended, so if ranks are still there some seconds later, `hung` is called on
// the watch's thread.
class ThreadWatch {
 public:
  // deadline: seconds; 0: nothing is watched. hung: null: nothing is called.
  ThreadWatch(int workers, double deadline, std::function<void(const std::string& finding)> hung);
  ~ThreadWatch();
  ThreadWatch(const ThreadWatch&) = delete;
  ThreadWatch& operator=(const ThreadWatch&) = delete;

  // Signs of life of the ranks, for their communicators; empty if nothing is watched.
  const std::vector<std::shared_ptr<dist::RankProgress>>& progress_by_rank() const { return progress_by_rank_; }

  // Time in which a rank is watched; any thread.
  void join(int rank, std::weak_ptr<Comm> comm);
  void leave(int rank);

 private:
  void run();
  void break_all(const std::string& finding);

  const std::chrono::milliseconds deadline_;
  const std::function<void(const std::string&)> hung_;
  std::vector<std::shared_ptr<dist::RankProgress>> progress_by_rank_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<int, std::weak_ptr<Comm>> there_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace starling::train
