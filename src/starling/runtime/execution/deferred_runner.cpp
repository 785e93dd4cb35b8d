#include "starling/base/error.h"
#include "starling/base/parallel.h"
#include "starling/runtime/execution/deferred_error.h"
#include "starling/runtime/execution/deferred_steps.h"
#include "starling/runtime/execution/lanes.h"
#include "starling/runtime/execution/runner.h"

namespace starling::runtime {
namespace {

// The comm lane runs its exchanges in order, so those of this run start when the last of the previous run has ended.
// Until then its counts belong to the previous run, and nothing of this run waits for them.
class DeferredRunner final : public Runner {
 public:
  explicit DeferredRunner(BoundProgram& program);

  void run() override;
  void wait() override { lanes_.wait_quietly(); }
  void finish() override;
  bool unfinished() const override { return pending_ && !broken_; }
  bool defers_updates() const override { return true; }

 private:
  using Step = BoundProgram::Step;

  void run_own_lane(bool skip);
  void catch_up(int ended);
  void end_previous();
  [[noreturn]] void fail_previous();
  std::size_t at(const Step& step) const { return program_.position(step); }

  BoundProgram& program_;
  const DeferredSteps deferred_;
  int last_earlier_ = 0;   // 1 + index of the last compute instruction that waits for the previous run
  std::int64_t runs_ = 0;  // so far
  bool pending_ = false;   // updates are pending
  bool overlaps_ = false;  // the comm lane may still be in the previous run
  bool broken_ = false;
  Lanes lanes_;  // last: its threads end first
};

DeferredRunner::DeferredRunner(BoundProgram& program)
    : program_(program), deferred_(deferred_steps(program.executable())), lanes_(program) {
  const auto& own = program.lanes()[0];
  for (std::size_t i = 0; i < own.size(); ++i) {
    if (deferred_.earlier[at(own[i])] > 0) last_earlier_ = static_cast<int>(i) + 1;
  }
  for (Step& step : program.lanes()[static_cast<std::size_t>(graph::Lane::comm)])
    step.awaited = true;  // the next run waits for them too
}

void DeferredRunner::run() {
  check(!broken_, "[run] expected a program that has not failed, got one that has");
  const bool skip = !pending_;
  if (!overlaps_) lanes_.begin();
  try {
    run_own_lane(skip);
    lanes_.wait_for({graph::Lane::comm, deferred_.awaited});
  } catch (...) {
    broken_ = true;
    if (!overlaps_) lanes_.fail(0);
    lanes_.wait_quietly();
    throw;
  }
  pending_ = overlaps_ = true;
  ++runs_;
  if (!lanes_.failed()) return;
  broken_ = true;
  lanes_.finish();  // throws what the lane threw
}

void DeferredRunner::run_own_lane(bool skip) {
  int ended = 0;
  for (const auto& step : program_.lanes()[0]) {
    if (!deferred_.update[at(step)] || !skip) {
      const int earlier = deferred_.earlier[at(step)];
      if (overlaps_ && earlier > 0) lanes_.wait_for({graph::Lane::comm, earlier});
      if (overlaps_ && (lanes_.failed() || !step.instruction->waits.empty())) catch_up(ended);
      for (const Wait& wait : step.instruction->waits) lanes_.wait_for(wait);
      if (lanes_.failed()) break;
      program_.run(step);
    }
    ++ended;
    if (overlaps_ && (ended >= last_earlier_ || lanes_.ended(graph::Lane::comm))) {
      catch_up(ended);
    } else if (!overlaps_) {
      lanes_.count_own();
    }
  }
  if (overlaps_) catch_up(ended);
}

void DeferredRunner::catch_up(int ended) {
  end_previous();
  lanes_.begin(ended);
}

void DeferredRunner::end_previous() {
  overlaps_ = false;
  lanes_.wait_quietly();
  if (lanes_.failed()) fail_previous();
}

void DeferredRunner::fail_previous() {
  broken_ = true;
  try {
    lanes_.finish();
  } catch (const std::exception& error) {
    throw DeferredError(
        fmt::format("[run] expected what call {} of the program left under way to end, got: {}", runs_, error.what()));
  }
  throw DeferredError("[run] expected what an earlier call left under way to end, got a failure");
}

void DeferredRunner::finish() {
  if (!unfinished()) return;
  end_previous();
  pending_ = false;
  const ThreadScope threads(program_.executable().threads());
  for (const auto& step : program_.lanes()[0]) {
    if (deferred_.update[at(step)]) program_.run(step);
  }
}

}  // namespace

std::unique_ptr<Runner> make_deferred_runner(BoundProgram& program) {
  return std::make_unique<DeferredRunner>(program);
}

}  // namespace starling::runtime
