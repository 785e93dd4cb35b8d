#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "starling/runtime/peak.h"
#include "starling/runtime/program_profile.h"

namespace starling {

// Collects when each instruction ran, on which lane and rank. Space for `capacity` events is taken at once: recording
// allocates nothing, and what does not fit is counted and dropped. It keeps what it needs of the programs it watched,
// so they may go before it is read.
class Profiler {
 public:
  using Clock = std::chrono::steady_clock;

  struct Event {
    const char* name;  // owned by the profile of its program
    const char* kernel;
    int rank;
    int lane;
    std::int64_t begin_ns;  // since the profiler was made
    std::int64_t end_ns;
    const ProgramProfile* program = nullptr;
    int instruction = -1;  // of that program
  };

  // All events of one op and kernel together.
  struct Total {
    std::string op{};
    std::string kernel{};
    std::int64_t calls = 0;
    double milliseconds = 0;
    Cost cost{};
  };

  explicit Profiler(std::size_t capacity = 1 << 16);
  std::int64_t now() const {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - start_).count();
  }
  // To be called before a program records: instances do so.
  const ProgramProfile* watch(const std::shared_ptr<const Executable>& executable);
  void record(const Event& event);
  std::vector<Event> events() const;
  void clear();

  // JSON for Perfetto and chrome://tracing: a slice an instruction with kernel, scope, device, bytes and FLOPs; a
  // counter of the arena's bytes in use.
  std::string chrome_trace() const;

  std::vector<Total> totals() const;  // longest first
  // One line an op and kernel: calls, time, its share, GFLOP/s, GB/s and how much of the nearer of the two peaks that
  // is (c: compute, m: memory). Without a peak that column is left out.
  std::string table(const Peak& peak = {}) const;
  // The memory time lines of the programs watched.
  std::string memory() const;
  std::vector<std::shared_ptr<const ProgramProfile>> programs() const;

 private:
  struct Watched {
    std::weak_ptr<const Executable> executable;  // a cache may let go of it while a profiler watches
    std::shared_ptr<const ProgramProfile> profile;
  };

  Clock::time_point start_ = Clock::now();
  mutable std::mutex mutex_;
  std::vector<Watched> watched_;
  std::vector<Event> events_;
  std::size_t capacity_;
  std::size_t dropped_ = 0;
};

}  // namespace starling
