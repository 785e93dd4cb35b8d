#pragma once

#include <atomic>

namespace starling {

namespace detail {
extern constinit thread_local const std::atomic<bool>* stop_request;
[[noreturn]] void fail_stopped();
}  // namespace detail

// Scope guard: `asked` becoming true ends what this thread runs, by an Error, where it looks: programs before each
// instruction, eager ops before their kernel. A wait for other ranks is ended by Comm::abort().
class StopRequestScope {
 public:
  explicit StopRequestScope(const std::atomic<bool>& asked) : StopRequestScope(&asked) {}
  // stop_request() of a thread that waits for this one; null: no stop is ever asked for.
  explicit StopRequestScope(const std::atomic<bool>* asked) : before_(detail::stop_request) {
    detail::stop_request = asked;
  }
  ~StopRequestScope() { detail::stop_request = before_; }
  StopRequestScope(const StopRequestScope&) = delete;
  StopRequestScope& operator=(const StopRequestScope&) = delete;

 private:
  const std::atomic<bool>* before_;
};

// Flag by which this thread is asked to stop; null: none. It is not handed on to new threads, as it ends with a scope:
// a thread that works for one call of this one takes it over with a scope of its own.
inline const std::atomic<bool>* stop_request() { return detail::stop_request; }

// Throws if this thread was asked to stop.
inline void check_stop_request() {
  const auto* asked = stop_request();
  if (asked && asked->load(std::memory_order_relaxed)) [[unlikely]]
    detail::fail_stopped();
}

}  // namespace starling
