#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "starling/base/function_ref.h"

namespace starling {

// Threads that help one calling thread through its parallel regions. Between regions they spin for a bounded time, in
// which the next region usually comes, giving way to whoever else wants the core; then they sleep. Not for use by
// several callers: each has its own team.
class ThreadTeam {
 public:
  ThreadTeam() = default;
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  // Calls body(piece) once for each piece in [0, pieces), piece 0 on this thread, and returns when all have returned.
  // The body must not throw.
  void run(int pieces, FunctionRef<void(int)> body);

 private:
  struct alignas(64) Helper {
    std::atomic<std::uint32_t> calls{0};  // regions it was called to; it has answered when `pending_` says so
    std::thread thread;
  };

  int grow(int helpers);  // how many there are then: a machine out of threads gives fewer
  void loop(Helper& helper, int piece);

  std::vector<std::unique_ptr<Helper>> helpers_;
  const FunctionRef<void(int)>* body_ = nullptr;
  bool closing_ = false;
  std::atomic<bool> crowded_{false};  // more threads than cores: they give way sooner
  alignas(64) std::atomic<std::int32_t> pending_{0};
};

}  // namespace starling
