#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "starling/runtime/memory/peak.h"
#include "starling/runtime/profile/program_profile.h"

namespace starling {

// Records the times of each instruction, by lane and rank. Space for `capacity` events is allocated up front: recording
// allocates nothing, and further events are counted and dropped. Profiles of the watched programs are kept, so the
// programs may be destroyed first.
class Profiler {
 public:
  using Clock = std::chrono::steady_clock;

  struct Event {
    const char* name;  // owned by the profile of its program
    const char* kernel;
    int rank;
    int lane;
    std::int64_t begin_ns;  // since construction of the profiler
    std::int64_t end_ns;
    const runtime::ProgramProfile* program = nullptr;
    int instruction = -1;  // index in that program
  };

  // Sum of all events of one op and kernel.
  struct Total {
    std::string op{};
    std::string kernel{};
    std::int64_t calls = 0;
    double milliseconds = 0;
    graph::Cost cost{};
  };

  explicit Profiler(std::size_t capacity = 1 << 16);
  std::int64_t now() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count();
  }
  // Registers a program before it records; called by instances.
  const runtime::ProgramProfile* watch(const std::shared_ptr<const runtime::Executable>& executable);
  void record(const Event& event);
  std::vector<Event> events() const;
  void clear();

  // JSON for Perfetto and chrome://tracing: one slice per instruction with kernel, scope, device, bytes and FLOPs; a
  // counter of the arena's bytes in use.
  std::string chrome_trace() const;

  std::vector<Total> totals() const;  // longest first
  // One line per op and kernel: calls, time, share, GFLOP/s, GB/s and the percentage of the nearer of the two peaks (c:
  // compute, m: memory). Without a peak that column is omitted.
  std::string table(const runtime::Peak& peak = {}) const;
  // Memory timelines of the watched programs.
  std::string memory() const;
  std::vector<std::shared_ptr<const runtime::ProgramProfile>> programs() const;

 private:
  struct Watched {
    std::weak_ptr<const runtime::Executable> executable;  // a program cache may drop it while it is watched
    std::shared_ptr<const runtime::ProgramProfile> profile;
  };

  Clock::time_point start_ = Clock::now();
  mutable std::mutex mutex_;
  std::vector<Watched> watched_;
  std::vector<Event> events_;
  std::size_t capacity_;
  std::size_t dropped_ = 0;
};

}  // namespace starling
