#include "starling/dist/health/failure_detector.h"

#include <gtest/gtest.h>

#include "dist/comm_worlds.h"

namespace starling::dist {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A job whose time is told by the test: everybody beats every 2 s unless left out.
class VigilOfThree : public ::testing::Test {
 protected:
  struct Life {
    std::uint64_t progress = 0;
    bool waiting = false, left = false, spare = false;
    std::string role{};
    bool elsewhere = false;
  };

  void beat(int rank) {
    detector_.beat(rank,
                   {.every = seconds(2),
                    .deadline = seconds(20),
                    .progress = lives_[rank].progress,
                    .waiting = lives_[rank].waiting,
                    .left = lives_[rank].left,
                    .spare = lives_[rank].spare,
                    .step = 37,
                    .role = lives_[rank].role,
                    .place = fmt::format("pid {} on alpha", 100 + rank),
                    .doing = rank == 2 ? "evaluation" : "",
                    .elsewhere = lives_[rank].elsewhere},
                   now_);
  }
  // Lets time pass in looks of half a second; every rank beats at its time but those left out.
  std::string pass(double time, const std::vector<int>& silent = {}) {
    for (const auto end = now_ + std::chrono::duration_cast<milliseconds>(std::chrono::duration<double>(time));
         now_ < end;) {
      now_ += milliseconds(500);
      if (now_.time_since_epoch() % seconds(2) == seconds(0)) {
        for (int rank = 0; rank < 3; ++rank) {
          if (std::find(silent.begin(), silent.end(), rank) == silent.end()) beat(rank);
        }
      }
      if (const auto& found = detector_.look(now_)) return found->text;
    }
    return "";
  }

  FailureDetector detector_;
  FailureDetector::Time now_{seconds(1'000)};
  Life lives_[3];
};

TEST_F(VigilOfThree, FindsNothingWhileAllBeat) {
  for (int i = 0; i < 50; ++i) {
    for (Life& life : lives_) ++life.progress;
    ASSERT_EQ(pass(2), "");
  }
}

TEST_F(VigilOfThree, ARankThatMissesThreeBeatsIsNamedWithItsPlaceAndStep) {
  EXPECT_EQ(pass(10), "");
  const auto stopped = now_;
  const std::string text = pass(20, {1});
  EXPECT_TRUE(
      contains(text, "[supervision] rank 1 (pid 101 on alpha) has been silent for 6.5 s, last reported step 37"))
      << text;
  EXPECT_LE(now_ - stopped, seconds(9));
  EXPECT_EQ(detector_.look(now_)->ranks, std::vector{1});
}

TEST_F(VigilOfThree, RanksThatFallSilentTogetherAreAllNamed) {
  EXPECT_EQ(pass(10), "");
  EXPECT_TRUE(contains(pass(20, {0, 2}), "; and rank 2 (pid 102 on alpha)"));
  EXPECT_EQ(detector_.look(now_)->ranks, (std::vector{0, 2}));
}

TEST_F(VigilOfThree, ARankThatHasLeftIsNotMissed) {
  EXPECT_EQ(pass(10), "");
  detector_.leave(1, now_);
  EXPECT_EQ(pass(60, {1}), "");
}

// The last beats of those that stay are of the time before.
TEST_F(VigilOfThree, ARankThatStaysWhenOthersHaveLeftIsNotTakenForWaiting) {
  lives_[0].waiting = lives_[1].waiting = true;
  for (int i = 0; i < 30; ++i) {
    ASSERT_EQ(pass(2), "");
    ++lives_[2].progress;
  }
  detector_.leave(2, now_);
  EXPECT_FALSE(detector_.look(now_ + milliseconds(100)));
  detector_.leave(1, now_ + milliseconds(200));
  EXPECT_FALSE(detector_.look(now_ + milliseconds(300)));
  EXPECT_EQ(pass(60, {1, 2}), "");
}

// Everybody is stopped (Ctrl-Z, a closed lid), but not the one who watches; they go on one after the other.
TEST_F(VigilOfThree, APauseOfAllRanksIsForgiven) {
  EXPECT_EQ(pass(10), "");
  EXPECT_EQ(pass(100, {0, 1, 2}), "");
  beat(0);
  EXPECT_EQ(pass(4, {1, 2}), "");
  EXPECT_EQ(pass(20), "");
}

// Ranks of other hosts may have been cut off together, and nobody else would notice.
TEST_F(VigilOfThree, ASilenceOfAllRanksOnOtherHostsEndsWithTheirDeadline) {
  for (Life& life : lives_) life.elsewhere = true;
  EXPECT_EQ(pass(10), "");
  const auto cut = now_;
  const std::string text = pass(60, {0, 1, 2});
  EXPECT_TRUE(contains(text, "[supervision] rank 0 (pid 100 on alpha) has been silent for 20.5 s")) << text;
  EXPECT_TRUE(contains(text, "; and rank 1 (pid 101 on alpha); and rank 2 (pid 102 on alpha)")) << text;
  EXPECT_LE(now_ - cut, seconds(23));
}

TEST_F(VigilOfThree, WithOneRankBesideTheWatcherASilenceOfAllIsAPause) {
  lives_[0].elsewhere = lives_[1].elsewhere = true;
  EXPECT_EQ(pass(10), "");
  EXPECT_EQ(pass(100, {0, 1, 2}), "");
}

TEST_F(VigilOfThree, ASpareRankThatFallsSilentIsNoFaultOfTheJob) {
  lives_[1].spare = true;
  EXPECT_EQ(pass(10), "");
  EXPECT_EQ(pass(100, {1}), "");
  lives_[1].spare = false;
  beat(1);
  EXPECT_TRUE(contains(pass(20, {1}), "rank 1 (pid 101 on alpha) has been silent")) << "control: one that is needed";
}

TEST_F(VigilOfThree, BesideASilentSpareRankTheNeededOneIsNamedWithItsRole) {
  lives_[0].spare = true;
  lives_[2].role = "server 1";
  EXPECT_EQ(pass(10), "");
  EXPECT_EQ(pass(30, {0}), "");
  const std::string text = pass(20, {0, 2});
  EXPECT_TRUE(contains(text, "[supervision] server 1, rank 2 (pid 102 on alpha) has been silent for 6.5 s")) << text;
  EXPECT_FALSE(contains(text, "rank 0")) << text;
  EXPECT_EQ(detector_.look(now_)->ranks, std::vector{2});
}

// The supervision alone would end it: mpirun waits for every process.
TEST_F(VigilOfThree, ASilentSpareRankIsNamedOnceAllOthersWaitForTheEnd) {
  lives_[1].spare = true;
  EXPECT_EQ(pass(10), "");
  EXPECT_EQ(pass(60, {1}), "");
  for (const int rank : {0, 2}) lives_[rank].left = lives_[rank].waiting = true;
  EXPECT_TRUE(contains(pass(4, {1}), "rank 1 (pid 101 on alpha) has been silent for 6"));
}

// The launcher ends it sooner, and that is no failure of the job.
TEST_F(VigilOfThree, ASilentSpareRankThatTheOthersHaveLeftBehindIsNotNamed) {
  lives_[1].spare = true;
  EXPECT_EQ(pass(10), "");
  detector_.leave(0, now_);
  detector_.leave(2, now_);
  EXPECT_EQ(pass(200, {0, 1, 2}), "");
}

// At the end of a job a silent rank is no pause of it: somebody waits for that end.
TEST_F(VigilOfThree, ARankThatStaysBehindSilentlyIsNamedAfterItsDeadline) {
  EXPECT_EQ(pass(10), "");
  detector_.leave(1, now_);
  detector_.leave(2, now_);
  EXPECT_EQ(pass(60, {1, 2}), "");
  const auto stopped = now_;
  const std::string text = pass(60, {0, 1, 2});
  EXPECT_TRUE(contains(text, "[supervision] rank 0 (pid 100 on alpha) has been silent for 20.5 s")) << text;
  EXPECT_LE(now_ - stopped, seconds(23));
}

TEST_F(VigilOfThree, ARankThatHasLeftWorksAloneAsLongAsItLikes) {
  lives_[1].left = lives_[2].left = lives_[1].waiting = true;  // rank 1 waits for the others to end
  lives_[0].waiting = true;  // for rank 1, in a call; rank 2 has nothing to do with it
  EXPECT_EQ(pass(200), "");
  lives_[0] = {.waiting = true, .left = true};
  EXPECT_EQ(pass(600), "");
}

// Rank 0 still has its world, but nobody that could need it there.
TEST_F(VigilOfThree, RanksThatWaitForTheEndLetTheLastOneWorkAsLongAsItLikes) {
  lives_[1] = lives_[2] = {.waiting = true, .left = true};
  EXPECT_EQ(pass(600), "");
  lives_[1].left = false;
  EXPECT_TRUE(contains(pass(60), "rank 0 (pid 100 on alpha) after step 37: no progress")) << "control: one in a call";
}

TEST_F(VigilOfThree, ACallThatNobodyIsLeftForIsNamed) {
  lives_[1] = lives_[2] = {.waiting = true, .left = true};
  lives_[0].waiting = true;
  EXPECT_EQ(pass(200), "");
  EXPECT_TRUE(contains(pass(100), "[supervision] all 3 ranks have waited for each other for 24"));
}

// A finding ends the job, and with it the rank that still works.
TEST_F(VigilOfThree, ASilentRankThatHasLeftIsNamedOnceNobodyWorksAnyMore) {
  for (Life& life : lives_) life.left = true;
  lives_[1].waiting = lives_[2].waiting = true;
  EXPECT_EQ(pass(10), "");
  EXPECT_EQ(pass(100, {1}), "");
  lives_[0].waiting = true;
  const std::string text = pass(4, {1});
  EXPECT_TRUE(contains(text, "[supervision] rank 1 (pid 101 on alpha) has been silent for 10")) << text;
}

// Rank 1 is stopped in the middle of its work, but rank 0 does not need it any more; rank 2 only waits for the end.
TEST_F(VigilOfThree, RanksThatOnlyWaitForTheEndAreToldOnceNoneWorks) {
  lives_[2].left = lives_[2].waiting = true;
  EXPECT_EQ(pass(10), "");
  EXPECT_TRUE(contains(pass(20, {1}), "rank 1 (pid 101 on alpha) has been silent"));
  EXPECT_TRUE(detector_.may_be_told(0));
  EXPECT_FALSE(detector_.may_be_told(2));
  lives_[0].left = lives_[0].waiting = true;
  beat(0);
  EXPECT_TRUE(detector_.may_be_told(2));
}

TEST_F(VigilOfThree, APauseOfTheWatcherItselfIsForgiven) {
  lives_[0].waiting = true;
  EXPECT_EQ(pass(10), "");
  now_ += seconds(3'600);
  EXPECT_FALSE(detector_.look(now_));
  lives_[0].waiting = false;
  EXPECT_EQ(pass(5, {0, 1}), "");
  EXPECT_EQ(pass(20), "");
}

TEST_F(VigilOfThree, ARankWithoutProgressThatOthersWaitForIsNamedWithWhatItDoes) {
  lives_[0].waiting = lives_[1].waiting = true;
  const auto began = now_;
  const std::string text = pass(60);
  EXPECT_TRUE(contains(text, "[supervision] rank 2 (pid 102 on alpha) in the evaluation after step 37: no progress"))
      << text;
  EXPECT_GE(now_ - began, seconds(20));
  EXPECT_LE(now_ - began, seconds(25));
}

TEST_F(VigilOfThree, WorkOfOneRankAloneIsWaitedForAsLongAsItReports) {
  lives_[0].waiting = lives_[1].waiting = true;
  for (int i = 0; i < 60; ++i) {
    ASSERT_EQ(pass(10), "");
    ++lives_[2].progress;
  }
}

TEST_F(VigilOfThree, NoRankIsNamedWhileNoneWaits) { EXPECT_EQ(pass(600), ""); }

TEST_F(VigilOfThree, RanksThatWaitForEachOtherAreAllNamed) {
  for (Life& life : lives_) life.waiting = true;
  EXPECT_EQ(pass(60), "") << "a call over a slow link may take longer than the deadline";
  EXPECT_TRUE(contains(pass(300), "[supervision] all 3 ranks have waited for each other for 24"));
}

TEST(Beats, AreReadAsWritten) {
  const Beat beat{.every = milliseconds(150),
                  .deadline = milliseconds(0),
                  .progress = 12,
                  .waiting = true,
                  .left = true,
                  .spare = true,
                  .step = 4,
                  .role = "server 2",
                  .place = "pid 3 on a b",
                  .doing = "save"};
  const Beat again = *read_beat(write_beat(beat));
  EXPECT_EQ(write_beat(again), write_beat(beat));
  EXPECT_EQ(again.place, "pid 3 on a b");
  EXPECT_EQ(again.role, "server 2");
  EXPECT_TRUE(again.waiting && again.left && again.spare);
  for (const char* wrong : {"", "2", "0 0 0 0 0 0 0\n\n\n", "-1 0 0 0 0 0 0\n\n\n", "x y z"})
    EXPECT_FALSE(read_beat(wrong).ok());
}

}  // namespace
}  // namespace starling::dist
