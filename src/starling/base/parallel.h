#pragma once

#include <algorithm>
#include <cstdint>

#include "starling/base/function_ref.h"

namespace starling {

// The only parallelism inside a kernel. Every thread that enters a region has a team of its own (base/thread_team.h).

// How many threads a parallel region entered from this thread may use.
int num_threads();

// Sets that number for this thread (and for the libraries that share the OpenMP runtime) while the scope lives.
class ThreadScope {
 public:
  explicit ThreadScope(int threads);
  ~ThreadScope();
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int before_;
};

// Calls body(thread) once for each thread in [0, threads), this thread being one of them. A body that throws: the first
// exception is rethrown here after all have ended. Inside a region it runs the bodies one after another.
void parallel_run(int threads, FunctionRef<void(int)> body);

// Cuts [0, count) into one contiguous piece a thread, none smaller than grain, and calls body(begin, end) on each. The
// cut depends on count, grain and num_threads() alone.
template <class Body>
void parallel_for(std::int64_t count, std::int64_t grain, Body&& body) {
  if (count <= 0) return;
  const std::int64_t pieces = std::min<std::int64_t>(num_threads(), count / std::max<std::int64_t>(grain, 1));
  if (pieces <= 1) {
    body(std::int64_t{0}, count);
    return;
  }
  parallel_run(static_cast<int>(pieces),
               [&](int piece) { body(count * piece / pieces, count * (piece + 1) / pieces); });
}

}  // namespace starling
