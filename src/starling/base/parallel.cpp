#include "starling/base/parallel.h"

#include <omp.h>

#include <exception>
#include <mutex>

#include "starling/base/thread/first_error.h"
#include "starling/base/thread/forked.h"
#include "starling/base/thread/thread_context.h"
#include "starling/base/thread/thread_team.h"

namespace starling {
namespace {

void run_piece(int piece, FunctionRef<void(int)> body, FirstError& error) noexcept {
  bool& in_region = thread_context().in_region;
  const bool outer = in_region;
  in_region = true;
  try {
    body(piece);
  } catch (...) {
    error.capture();
  }
  in_region = outer;
}

// Libraries that share the OpenMP runtime stay on one thread in a forked process: the runtime's team is its parent's.
void set_library_threads(int threads) { omp_set_num_threads(forks() == 0 ? threads : 1); }

}  // namespace

int num_threads() {
  int& threads = thread_context().threads;
  if (threads == 0) threads = std::max(1, omp_get_max_threads());
  return threads;
}

ThreadScope::ThreadScope(int threads) : before_(num_threads()) {
  thread_context().threads = std::max(1, threads);
  set_library_threads(thread_context().threads);
}

ThreadScope::~ThreadScope() {
  thread_context().threads = before_;
  set_library_threads(before_);
}

void parallel_run(int threads, FunctionRef<void(int)> body) {
  if (threads <= 1 || thread_context().in_region) {
    for (int t = 0; t < threads; ++t) body(t);
    return;
  }
  FirstError error;
  thread_local ThreadTeam team;
  team.run(threads, [&](int piece) { run_piece(piece, body, error); });
  error.rethrow();
}

}  // namespace starling
