#pragma once

#include <atomic>

#include "starling/base/thread/thread_context.h"

namespace starling {

namespace detail {
[[noreturn]] void fail_stopped();
}  // namespace detail

// Scope guard: `asked` becoming true ends what this thread runs, by an Error, where it looks: programs before each
// instruction, eager ops before their kernel. A wait for other ranks is ended by Comm::abort().
class StopRequestScope {
 public:
  explicit StopRequestScope(const std::atomic<bool>& asked) : before_(thread_context().stop) {
    thread_context().stop = &asked;
  }
  ~StopRequestScope() { thread_context().stop = before_; }
  StopRequestScope(const StopRequestScope&) = delete;
  StopRequestScope& operator=(const StopRequestScope&) = delete;

 private:
  const std::atomic<bool>* before_;
};

// Flag by which this thread is asked to stop; null: none. Of new threads only those that work for one call of this one
// get it (ThreadContext::for_call()), as it ends with a scope.
inline const std::atomic<bool>* stop_request() { return thread_context().stop; }

// Throws if this thread was asked to stop.
inline void check_stop_request() {
  const auto* asked = stop_request();
  if (asked && asked->load(std::memory_order_relaxed)) [[unlikely]]
    detail::fail_stopped();
}

}  // namespace starling
