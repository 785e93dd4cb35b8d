#include "starling/train/loop/interrupt.h"

#include <csignal>

namespace starling {
namespace {

volatile std::sig_atomic_t stop_signal = 0;  // global, for the signal handler

void on_stop(int signal) {
  stop_signal = signal;
  std::signal(signal, SIG_DFL);
}

}  // namespace

std::function<bool()> stop_on_signals() {
  stop_signal = 0;
  std::signal(SIGINT, on_stop);
  std::signal(SIGTERM, on_stop);
  return [] { return stop_signal != 0; };
}

}  // namespace starling
