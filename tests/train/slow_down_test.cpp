#include "starling/train/ranks/slow_down.h"

#include <gtest/gtest.h>

#include <ctime>
#include <functional>
#include <thread>

namespace starling::train {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

double processor_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

void compute(double seconds) {
  const double until = processor_seconds() + seconds;
  while (processor_seconds() < until) {
  }
}

double seconds_of(const std::function<void()>& what) {
  const auto begin = Clock::now();
  what();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

TEST(SlowDown, SleepsUntilComputingTookTheFactorTimesAsLong) {
  SlowDown slow(4);
  slow.before();
  compute(0.02);
  slow.after(false);
  EXPECT_GE(seconds_of([&] { slow.before(); }), 0.055);
  EXPECT_NEAR(slow.slept_seconds(), 0.06, 0.02);
}

TEST(SlowDown, DoesNotStretchWaiting) {
  SlowDown slow(4);
  slow.before();
  std::this_thread::sleep_for(50ms);
  slow.after(false);
  slow.before();
  EXPECT_LT(slow.slept_seconds(), 0.01);
}

TEST(SlowDown, DoesNotStretchCompiling) {
  SlowDown slow(100);
  slow.before();
  compute(0.02);
  slow.after(true);
  slow.before();
  EXPECT_EQ(slow.slept_seconds(), 0);
}

TEST(SlowDown, LeavesAWorkerAloneByDefault) {
  SlowDown slow(1);
  slow.before();
  compute(0.005);
  slow.after(false);
  slow.before();
  EXPECT_EQ(slow.slept_seconds(), 0);
}

}  // namespace
}  // namespace starling::train
