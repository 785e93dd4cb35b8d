#include "starling/dist/strategy/uneven/quorum.h"

#include <gtest/gtest.h>

#include "starling/base/error.h"

namespace starling::dist {
namespace {

using Verdict = Quorum::Verdict;

TEST(Quorum, CountsDistinctWorkersOnly) {
  Quorum quorum(2, 3);
  EXPECT_EQ(quorum.add(1, 0, 4), Verdict::counted);
  EXPECT_EQ(quorum.add(1, 0, 4), Verdict::repeated);
  EXPECT_FALSE(quorum.enough());
  EXPECT_EQ(quorum.total(), 4);
  EXPECT_EQ(quorum.add(2, 0, 5), Verdict::counted);
  EXPECT_TRUE(quorum.enough());
  EXPECT_EQ(quorum.contributors(), (std::vector<int>{1, 2}));
  EXPECT_EQ(quorum.total(), 9);
}

TEST(Quorum, GradientsThatComeAfterEnoughAreLate) {
  Quorum quorum(2, 3);
  quorum.add(0, 0, 1);
  quorum.add(2, 0, 1);
  EXPECT_EQ(quorum.add(1, 0, 1), Verdict::late);
  quorum.next(1);
  EXPECT_EQ(quorum.add(1, 0, 1), Verdict::late);
  EXPECT_TRUE(quorum.contributors().empty());
  EXPECT_EQ(quorum.add(1, 1, 1), Verdict::counted);
}

TEST(Quorum, AStepWithoutDataWaitsForSomeUnlessNobodyHasAny) {
  Quorum quorum(2, 3);
  quorum.add(0, 0, 0);
  quorum.add(1, 0, 0);
  EXPECT_FALSE(quorum.enough());
  quorum.add(2, 0, 0);
  EXPECT_TRUE(quorum.enough());
}

TEST(Quorum, RefusesStepsThatAreNotOpenYet) {
  Quorum quorum(1, 2);
  EXPECT_THROW(quorum.add(0, 1, 1), Error);
  EXPECT_THROW(Quorum(3, 2), Error);
  EXPECT_THROW(Quorum(0, 2), Error);
}

}  // namespace
}  // namespace starling::dist
