#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "starling/base/function_ref.h"

namespace starling {

// Helper threads for the parallel regions of one calling thread. Between regions they spin for a bounded time, in which
// the next region usually starts, yielding the core to other threads; then they sleep. Each caller has its own team.
// In a forked process a team starts helpers of its own.
class ThreadTeam {
 public:
  ThreadTeam() = default;
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  // Calls body(piece) once for each piece in [0, pieces), piece 0 on the calling thread; returns when all have
  // returned. The body must not throw.
  void run(int pieces, FunctionRef<void(int)> body);

 private:
  struct alignas(64) Helper {
    std::atomic<std::uint32_t> calls{0};  // regions this helper was woken for; completion is counted in `pending_`
    std::thread thread;
  };

  void leave_parents_helpers();
  int grow(int helpers);  // returns the number of helpers: fewer when the machine is out of threads
  void loop(Helper& helper, int piece);

  std::vector<std::unique_ptr<Helper>> helpers_;
  std::uint32_t forks_ = 0;  // forks() when the helpers were started
  const FunctionRef<void(int)>* body_ = nullptr;
  bool closing_ = false;
  std::atomic<bool> crowded_{false};  // more threads than cores: helpers yield sooner
  alignas(64) std::atomic<std::int32_t> pending_{0};
};

}  // namespace starling
