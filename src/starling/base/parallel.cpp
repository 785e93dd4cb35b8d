#include "starling/base/parallel.h"

#include <omp.h>

#include <exception>
#include <mutex>

#include "starling/base/thread_team.h"

namespace starling {
namespace {

thread_local int thread_limit = 0;  // 0: unset
thread_local bool in_region = false;

class FirstError {
 public:
  void capture() noexcept {
    std::scoped_lock lock(mutex_);
    if (!error_) error_ = std::current_exception();
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
};

void run_piece(int piece, FunctionRef<void(int)> body, FirstError& error) noexcept {
  const bool outer = in_region;
  in_region = true;
  try {
    body(piece);
  } catch (...) {
    error.capture();
  }
  in_region = outer;
}

}  // namespace

int num_threads() {
  if (thread_limit == 0) thread_limit = std::max(1, omp_get_max_threads());
  return thread_limit;
}

ThreadScope::ThreadScope(int threads) : before_(num_threads()) {
  thread_limit = std::max(1, threads);
  omp_set_num_threads(thread_limit);
}

ThreadScope::~ThreadScope() {
  thread_limit = before_;
  omp_set_num_threads(before_);
}

void parallel_run(int threads, FunctionRef<void(int)> body) {
  if (threads <= 1 || in_region) {
    for (int t = 0; t < threads; ++t) body(t);
    return;
  }
  FirstError error;
  thread_local ThreadTeam team;
  team.run(threads, [&](int piece) { run_piece(piece, body, error); });
  error.rethrow();
}

}  // namespace starling
