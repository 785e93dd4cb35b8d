#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "starling/dist/comm/call.h"

namespace starling::dist {

// Notifier between threads: counts notifications, so that one sent while no thread waits is not lost.
class Notifier {
 public:
  void notify() {
    {
      std::scoped_lock lock(mutex_);
      rings_.fetch_add(1, std::memory_order_release);
    }
    rung_.notify_all();
  }

  std::uint64_t rings() const { return rings_.load(std::memory_order_acquire); }

  // Blocks until the count differs from `heard`, or until the given time.
  void wait(std::uint64_t heard, CommTime until) {
    std::unique_lock lock(mutex_);
    rung_.wait_until(lock, until, [&] { return rings() != heard; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable rung_;
  std::atomic<std::uint64_t> rings_{0};
};

}  // namespace starling::dist
