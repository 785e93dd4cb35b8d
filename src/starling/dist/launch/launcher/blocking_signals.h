#pragma once

#include <signal.h>

namespace starling::dist {

// Scope in which threads are made that get no signals: these stay with the threads that were there before, whose waits
// they are to interrupt.
class BlockingSignals {
 public:
  BlockingSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~BlockingSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  BlockingSignals(const BlockingSignals&) = delete;
  BlockingSignals& operator=(const BlockingSignals&) = delete;

 private:
  sigset_t before_{};
};

}  // namespace starling::dist
