// Sites of random calls: counted by scope, for the thread whose scopes they are.
#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "starling/base/thread/make_thread.h"
#include "starling/ops/def/scopes/scope.h"

namespace starling {
namespace {

TEST(Sites, AreCountedAnewWithinSiteCountsAndGoOnAfterwards) {
  const SiteCounts outer;
  const auto first = next_random_site(), second = next_random_site();
  EXPECT_NE(first, second);
  {
    const SiteCounts inner;
    EXPECT_EQ(next_random_site(), first);
    SiteCounts::reset();
    EXPECT_EQ(next_random_site(), first);
  }
  const auto third = next_random_site();
  EXPECT_NE(third, first);
  EXPECT_NE(third, second) << "the inner counts are not the outer ones";
}

TEST(Sites, AreDrawnAgainByAReplayWhichLeavesCountsAndScopeAsTheyWere) {
  const SiteCounts counts;
  next_random_site();
  std::optional<SitePoint> point;
  {
    const NameScope scope("net");
    next_random_site();
    point.emplace();
  }
  const auto after = [] {
    const NameScope scope("net");
    return next_random_site();
  };
  const auto second = after();
  const SiteCounts elsewhere;
  for (int run = 0; run < 2; ++run) {
    const SiteReplay replay(*point);
    EXPECT_EQ(current_scope().str(), "net");
    EXPECT_EQ(next_random_site(), second) << "run " << run;
  }
  EXPECT_EQ(current_scope().str(), "");
  const auto fresh = after();
  SiteCounts::reset();
  EXPECT_EQ(after(), fresh) << "replays count for themselves";
}

TEST(Sites, OfAThreadAreItsOwnWhateverScopesItsMakerIsIn) {
  const SiteCounts counts;
  const auto first = next_random_site();
  std::int64_t there = 0;
  make_thread(thread_context().inherited(), [&] { there = next_random_site(); }).join();
  EXPECT_EQ(there, first);
  EXPECT_NE(next_random_site(), first) << "the other thread's calls reset nothing here";
}

}  // namespace
}  // namespace starling
