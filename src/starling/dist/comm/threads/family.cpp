#include "starling/dist/comm/threads/family.h"

namespace starling::dist {

std::string Family::reason() const {
  std::scoped_lock lock(mutex_);
  return reason_;
}

void Family::break_with(const std::string& reason) {
  {
    std::scoped_lock lock(mutex_);
    if (broken_.load()) return;
    reason_ = reason;
    broken_.store(true);
  }
  notifier_.notify_all();
}

void Family::drain() const {
  while (visits_.load() != 0) std::this_thread::yield();
}

void Family::ring() {
  if (sleepers_.load() == 0) return;
  // A sleeper tests its condition under the mutex: passing through it means that none is between test and sleep.
  { std::scoped_lock lock(mutex_); }
  notifier_.notify_all();
}

void Family::pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace starling::dist
