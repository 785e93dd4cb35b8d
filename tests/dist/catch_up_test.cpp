#include "starling/dist/strategy/uneven/catch_up.h"

#include <gtest/gtest.h>

namespace starling::dist {
namespace {

TEST(CatchUp, SkipsNothingWithinTheAllowedLag) {
  CatchUp rank(4);
  for (std::int64_t step = 0; step < 100; ++step) EXPECT_FALSE(rank.leaves_out(step, step + 4));
}

TEST(CatchUp, SkipsStepsUntilItReachesTheFastestRanksStep) {
  CatchUp rank(4);
  EXPECT_TRUE(rank.leaves_out(10, 15));
  EXPECT_TRUE(rank.leaves_out(14, 15)) << "it does not stop half-way";
  EXPECT_FALSE(rank.leaves_out(15, 16));
  EXPECT_FALSE(rank.leaves_out(16, 16));
}

TEST(CatchUp, CatchesUpWithARankThatKeepsAdvancing) {
  CatchUp rank(2);
  int computed = 0;
  for (std::int64_t step = 0, done = 0; step < 300; ++step) {
    if (rank.leaves_out(step, done)) continue;
    ++computed;
    done = std::max(done, step) + 3;  // the others make three more steps
  }
  EXPECT_GE(computed, 95);
  EXPECT_LE(computed, 105);
}

TEST(CatchUp, SkipsNothingWhenSwitchedOff) {
  CatchUp rank(0);
  EXPECT_FALSE(rank.leaves_out(0, 1000));
}

}  // namespace
}  // namespace starling::dist
