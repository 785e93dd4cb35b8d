// A request to stop reaches the threads that work for a call, not its caller alone.
#include "starling/base/thread/stop_request.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "starling/base/error.h"
#include "starling/runtime/execution/lane_thread.h"

namespace starling::runtime {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

// Work as a lane has it, which looks before each of its instructions. They would take so long.
void work_for(milliseconds time) {
  for (const auto end = Clock::now() + time; Clock::now() < end;) {
    check_stop_request();
    std::this_thread::sleep_for(milliseconds(1));
  }
}

TEST(StopRequest, IsHeardByTheLanesOfACall) {
  LaneThread lane([] { work_for(milliseconds(60'000)); });
  std::atomic<bool> asked{false};
  const StopRequestScope scope(asked);
  lane.start();
  asked = true;
  const auto begun = Clock::now();
  EXPECT_THROW(lane.finish(), Error);
  EXPECT_LT(Clock::now() - begun, milliseconds(20'000));
}

TEST(StopRequest, OfOneCallIsNoneOfTheNext) {
  LaneThread lane([] { work_for(milliseconds(5)); });
  std::atomic<bool> asked{true};
  {
    const StopRequestScope scope(asked);
    lane.start();
    EXPECT_THROW(lane.finish(), Error);
  }
  lane.start();
  EXPECT_NO_THROW(lane.finish()) << "it has a caller that nobody asked";
}

}  // namespace
}  // namespace starling::runtime
