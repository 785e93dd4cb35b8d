#include "starling/runtime/execution/step_order.h"

#include <gtest/gtest.h>

#include <array>

namespace starling::runtime {
namespace {

using Before = std::vector<std::vector<int>>;

std::array<std::byte, 100> memory;

Touched reads(std::size_t from, std::size_t bytes = 10) { return {memory.data() + from, bytes, false}; }
Touched writes(std::size_t from, std::size_t bytes = 10) { return {memory.data() + from, bytes, true}; }

StepMemory step(std::vector<Touched> all) { return {.memory = std::move(all)}; }

TEST(StepOrder, ReadersFollowWritersAndWritersFollowReaders) {
  const StepMemory steps[] = {step({writes(0)}), step({reads(5, 2), writes(20)}), step({writes(9)}),
                              step({reads(0, 9)})};
  EXPECT_EQ(steps_before(steps), (Before{{}, {0}, {0}, {0}}));
  const StepMemory again[] = {step({writes(0)}), step({reads(0)}), step({writes(0)})};
  EXPECT_EQ(steps_before(again), (Before{{}, {0}, {1}}));
}

TEST(StepOrder, BranchesMeetAndWhatIsKnownIsNotNamedAgain) {
  // 0 makes a value of which 1 and 2 make others; 3 reads both and the first.
  const StepMemory steps[] = {step({writes(0)}), step({reads(0), writes(10)}), step({reads(0), writes(20)}),
                              step({reads(0), reads(10), reads(20), writes(30)}), step({reads(30), reads(10)})};
  EXPECT_EQ(steps_before(steps), (Before{{}, {0}, {0}, {1, 2}, {3}}));
}

TEST(StepOrder, ReadersOfTheSameDoNotWait) {
  const StepMemory steps[] = {step({reads(0), writes(10)}), step({reads(0), writes(20)}), step({writes(40, 0)})};
  EXPECT_EQ(steps_before(steps), (Before{{}, {}, {}}));
}

TEST(StepOrder, LargeStepsStayInTheirOrderAndSmallOnesRunBeside) {
  StepMemory steps[] = {step({writes(0)}), step({writes(10)}), step({writes(20)}), step({writes(30)})};
  steps[0].large = steps[2].large = steps[3].large = true;
  EXPECT_EQ(steps_before(steps), (Before{{}, {}, {0}, {2}}));
}

TEST(StepOrder, AStepThatIsAloneSeparatesAllOthers) {
  StepMemory steps[] = {step({writes(0)}), step({writes(10)}), step({}), step({writes(20)}), step({writes(30)})};
  steps[2].alone = true;
  EXPECT_EQ(steps_before(steps), (Before{{}, {}, {0, 1}, {2}, {2}}));
}

}  // namespace
}  // namespace starling::runtime
