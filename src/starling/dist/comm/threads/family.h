#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

#include "starling/dist/comm/call.h"

namespace starling::dist {

// State shared by a group of thread ranks and all groups split from it: they break together and sleep on one notifier.
//
// Once broken, always broken. A rank that throws gives its buffers back to the user, so nobody may still be reading
// them: other ranks' buffers are only touched inside a Visit, visits are refused once broken, and drain() waits for
// those in progress (microseconds each).
class Family {
 public:
  explicit Family(int spins) : spins_(spins) {}

  bool broken() const { return broken_.load(); }
  std::string reason() const;
  void break_with(const std::string& reason);  // only the first reason is kept
  void drain() const;

  // Wakes sleepers. Call after every change they may be waiting for; the change itself is a sequentially consistent
  // store.
  void ring();

  // Spins a little, then sleeps, until condition() or the deadline; true if the condition held.
  template <class Condition>
  bool wait(Condition condition, CommTime deadline) {
    for (int i = 0; i < spins_; ++i) {
      if (condition()) return true;
      pause();
    }
    std::unique_lock lock(mutex_);
    sleepers_.fetch_add(1);
    const bool held = notifier_.wait_until(lock, deadline, condition);
    sleepers_.fetch_sub(1);
    return held;
  }

  class Visit {
   public:
    explicit Visit(Family& family) : family_(family) { family_.visits_.fetch_add(1); }
    ~Visit() { family_.visits_.fetch_sub(1); }
    Visit(const Visit&) = delete;
    Visit& operator=(const Visit&) = delete;
    bool refused() const { return family_.broken(); }

   private:
    Family& family_;
  };

 private:
  static void pause();

  const int spins_;
  std::atomic<bool> broken_{false};
  std::atomic<int> visits_{0};
  std::atomic<int> sleepers_{0};
  mutable std::mutex mutex_;
  std::condition_variable notifier_;
  std::string reason_;
};

}  // namespace starling::dist
