#include "starling/base/thread/forked.h"

#include <omp.h>
#include <pthread.h>

#include <atomic>

namespace starling {
namespace {

std::atomic<std::uint32_t> count{0};

// Runs in the child, on its only thread. The team of the OpenMP runtime stayed behind: regions of libraries must not
// wait for it.
void in_child() {
  count.fetch_add(1);
  omp_set_num_threads(1);
}

}  // namespace

std::uint32_t forks() {
  [[maybe_unused]] static const int registered = pthread_atfork(nullptr, nullptr, in_child);
  return count.load(std::memory_order_relaxed);
}

}  // namespace starling
