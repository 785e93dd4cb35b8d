#include "starling/runtime/execution/lanes.h"

#include "starling/base/thread/stop_request.h"

namespace starling::runtime {

Lanes::Lanes(BoundProgram& program) : program_(program), done_(program.lanes().size()) {
  for (std::size_t lane = 1; lane < program.lanes().size(); ++lane) {
    if (program.lanes()[lane].empty()) continue;
    const int threads = is_comm(static_cast<graph::Lane>(lane)) ? 1 : program.executable().threads();
    others_.push_back(std::make_unique<LaneThread>([this, lane] { run(lane); }, threads));
  }
}

Lanes::~Lanes() { wait_quietly(); }

void Lanes::begin() {
  for (auto& done : done_) done.value.store(0, std::memory_order_relaxed);
  failed_.store(false, std::memory_order_relaxed);
  for (auto& lane : others_) lane->start();
}

void Lanes::run(std::size_t lane) {
  auto& done = done_[lane].value;
  try {
    for (const auto& step : program_.lanes()[lane]) {
      for (const Wait& wait : step.instruction->waits) wait_for(wait);
      if (failed_.load(std::memory_order_relaxed)) return fail(lane);
      check_stop_request();
      program_.run(step);
      done.fetch_add(1, std::memory_order_release);
      if (step.awaited) done.notify_all();  // a needless wake-up costs as much as a small op
    }
  } catch (...) {
    fail(lane);
    throw;
  }
}

void Lanes::wait_quietly() {
  for (auto& lane : others_) lane->finish_quietly();
}

void Lanes::finish() {
  wait_quietly();
  for (auto& lane : others_) lane->finish();
}

// Wakes the lanes waiting for this one; they see the failure and stop.
void Lanes::fail(std::size_t lane) {
  failed_.store(true);
  done_[lane].value.store(static_cast<int>(program_.lanes()[lane].size()) + 1);
  done_[lane].value.notify_all();
}

// Spins briefly, then sleeps: the other lane is usually microseconds away, or milliseconds.
void Lanes::wait_for(const Wait& wait) {
  auto& done = done_[static_cast<std::size_t>(wait.lane)].value;
  for (int spin = 0; spin < 2000; ++spin) {
    if (done.load(std::memory_order_acquire) >= wait.count) return;
  }
  int seen = done.load(std::memory_order_acquire);
  while (seen < wait.count) {
    done.wait(seen);
    seen = done.load(std::memory_order_acquire);
  }
}

}  // namespace starling::runtime
