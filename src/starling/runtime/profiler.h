#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

namespace starling {

// Collects when each instruction ran, on which lane and rank; writes a Chrome trace (chrome://tracing, Perfetto). Space
// for `capacity` events is taken at once: recording allocates nothing, and what does not fit is counted and dropped.
class Profiler {
 public:
  using Clock = std::chrono::steady_clock;

  struct Event {
    const char* name;  // static or owned by the executable
    const char* kernel;
    int rank;
    int lane;
    std::int64_t begin_ns;  // since the profiler was made
    std::int64_t end_ns;
  };

  explicit Profiler(std::size_t capacity = 1 << 16);
  std::int64_t now() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count();
  }
  void record(const Event& event);
  std::vector<Event> events() const;
  void clear();
  std::string chrome_trace() const;

 private:
  Clock::time_point start_ = Clock::now();
  mutable std::mutex mutex_;
  std::vector<Event> events_;
  std::size_t capacity_;
  std::size_t dropped_ = 0;
};

}  // namespace starling
