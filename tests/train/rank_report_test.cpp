// Straggler detection.
#include <gtest/gtest.h>

#include "starling/train/ranks/report.h"

namespace starling::train {
namespace {

RankStats rank_of(double wait, std::int64_t samples = 100, std::int64_t left_out = 0) {
  RankStats stats{.samples = samples, .left_out = left_out, .seconds = 10};
  stats.wait[static_cast<std::size_t>(CommOp::all_reduce)] = wait;
  return stats;
}

TEST(RankReport, NamesTheRankThatTheOthersWaitFor) {
  const std::vector<RankStats> ranks = {rank_of(6), rank_of(0.2), rank_of(5.8), rank_of(6.1)};
  EXPECT_EQ(straggler(ranks), 1);
  const std::string told = describe_straggler(ranks);
  EXPECT_NE(told.find("rank 1 is slower"), std::string::npos) << told;
  EXPECT_NE(told.find("60 %"), std::string::npos) << told;
}

TEST(RankReport, NamesNobodyWhereAllAreEven) {
  EXPECT_EQ(straggler(std::vector{rank_of(1), rank_of(1.2), rank_of(0.9)}), std::nullopt);
  EXPECT_EQ(straggler(std::vector{rank_of(1)}), std::nullopt);
  EXPECT_TRUE(describe_straggler(std::vector{rank_of(1), rank_of(1.2)}).empty());
}

TEST(RankReport, TellsOnlyOfWaitsThatMatter) {
  const std::vector<RankStats> ranks = {rank_of(1), rank_of(0)};
  EXPECT_EQ(straggler(ranks), 1);
  EXPECT_TRUE(describe_straggler(ranks).empty());
}

// No rank waits for the slow one, so waits say nothing; the others even wait a little more, for the disk.
TEST(RankReport, NamesTheRankThatLeavesOutItsRows) {
  const std::vector<RankStats> ranks = {rank_of(0), rank_of(0.9), rank_of(0.8, 40, 60), rank_of(0.9, 97, 3)};
  EXPECT_EQ(straggler(ranks), 2);
  EXPECT_NE(describe_straggler(ranks).find("60 % of its samples"), std::string::npos);
}

TEST(RankReport, DoesNotTakeFewRowsForSlowness) {
  EXPECT_EQ(straggler(std::vector{rank_of(1, 300), rank_of(1, 300), rank_of(1, 0)}), std::nullopt);
  EXPECT_EQ(straggler(std::vector{rank_of(0, 70, 30), rank_of(0, 75, 25)}), std::nullopt) << "all leave out some";
}

TEST(RankReport, CountsWhatWasLeftOutBetweenTwoMoments) {
  const std::vector<RankStats> before = {rank_of(1, 10, 5)}, now = {rank_of(3, 40, 25)};
  const RankStats since = between(before, now)[0];
  EXPECT_EQ(since.samples, 30);
  EXPECT_EQ(since.left_out, 20);
  EXPECT_DOUBLE_EQ(since.waited(), 2);
  EXPECT_EQ(to_json(3, since).at("left_out"), 20);
}

}  // namespace
}  // namespace starling::train
