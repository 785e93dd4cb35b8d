#include "starling/train/loop/interrupt.h"

#include <unistd.h>

#include <csignal>

namespace starling {
namespace {

volatile std::sig_atomic_t stop_signal = 0;  // global, for the signal handler

// Ends the process as if nobody had handled the signal, but says so: a run that is killed while it saves goes on from
// an older checkpoint. Only what may be called in a signal handler is called.
void on_second(int signal) {
  static constexpr char kText[] = "\nstarling: ended at once by a second signal; what was not saved yet is lost\n";
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, kText, sizeof kText - 1);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void on_stop(int signal) {
  stop_signal = signal;
  std::signal(signal, on_second);
}

}  // namespace

std::function<bool()> stop_on_signals() {
  stop_signal = 0;
  std::signal(SIGINT, on_stop);
  std::signal(SIGTERM, on_stop);
  return [] { return stop_signal != 0; };
}

}  // namespace starling
