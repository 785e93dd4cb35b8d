#pragma once

#include <algorithm>
#include <cstdint>

#include "starling/base/function_ref.h"

namespace starling {

// The only parallelism inside a kernel. Every thread that enters a region has its own team (base/thread/thread_team.h).

// Number of threads that a parallel region entered from this thread may use.
int num_threads();

// Sets num_threads() of this thread (and of libraries that share the OpenMP runtime) for the lifetime of the scope.
class ThreadScope {
 public:
  explicit ThreadScope(int threads);
  ~ThreadScope();
  ThreadScope(const ThreadScope&) = delete;
  ThreadScope& operator=(const ThreadScope&) = delete;

 private:
  int before_;
};

// Calls body(thread) once for each thread in [0, threads), one of them on the calling thread. The first exception is
// rethrown after all bodies have ended. Nested inside a region, the bodies run one after another.
void parallel_run(int threads, FunctionRef<void(int)> body);

// Cuts [0, count) into one contiguous piece per thread, none smaller than grain, and calls body(begin, end) on each.
// The cut depends only on count, grain and num_threads().
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
