// Memory of a rank that others may touch: nobody does once it has aborted or seen the group break.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "starling/base/error.h"
#include "starling/dist/comm/shared/shared_group.h"
#include "starling/dist/comm/threads/threads_comm.h"

namespace starling::dist {
namespace {

using std::chrono::milliseconds;

// Two ranks of one process, without communicators.
class Visits : public ::testing::Test {
 protected:
  std::shared_ptr<SharedWorld> world_of(int rank, milliseconds patience = SharedWorld::kVisitPatience) const {
    return std::make_shared<SharedWorld>(mapping_, rank, 0, SharedWorld::Reach::process, patience);
  }
  std::shared_ptr<Mapping> mapping_ = make_world_memory(2, "visits", 64 * GroupBlock::bytes(2));
};

TEST_F(Visits, AnAbortWaitsUntilTheOthersHaveLeftItsBuffers) {
  const auto own = world_of(0), other = world_of(1);
  SharedGroup group(own, own->block().group, 0, "visits");
  std::atomic<bool> inside = false, left = false;
  std::jthread visitor([&] {
    const SharedWorld::Visit visit(*other);
    inside = true;
    std::this_thread::sleep_for(milliseconds(100));
    left = true;
  });
  while (!inside) std::this_thread::yield();
  group.abort("enough");
  EXPECT_TRUE(left);
  EXPECT_TRUE(SharedWorld::Visit(*other).refused());
}

// Every unit of an all-reduce writes to the buffers of both ranks; the aborted one's may be anything a moment later.
TEST(ThreadRanks, NoRankWritesIntoTheBuffersOfOneThatHasAborted) {
  constexpr std::int64_t kCount = 1 << 20;
  for (int round = 0; round < 20; ++round) {
    const auto comms = make_thread_comms(2);
    std::atomic<bool> waits = false;
    const auto body = [&](Comm& comm) {
      std::vector<float> data(kCount, 1.0f);
      const Work work = comm.all_reduce(data.data(), data.data(), kCount, DType::f32, ReduceOp::sum);
      if (comm.rank() == 1) {
        waits = true;
        return work.wait();
      }
      while (!waits) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::microseconds(40 + 5 * round));
      comm.abort("gives up");
      std::fill(data.begin(), data.end(), -7.0f);
      std::this_thread::sleep_for(milliseconds(2));
      EXPECT_EQ(std::count(data.begin(), data.end(), -7.0f), kCount) << round;
    };
    try {
      run_ranks(comms, body);
    } catch (const Error&) {  // rank 1, unless it was faster
    }
  }
}

// An all-reduce that both ranks have come to, before rank 1 gives up.
class GivenUp : public ::testing::Test {
 protected:
  GivenUp() {
    work_ = comms_[0]->all_reduce(&own_, &own_, 1, DType::f32, ReduceOp::sum);
    static_cast<void>(comms_[1]->all_reduce(&other_, &other_, 1, DType::f32, ReduceOp::sum));
    comms_[1]->abort("gives up");
  }
  std::vector<std::unique_ptr<Comm>> comms_ = make_thread_comms(2);
  float own_ = 1, other_ = 1;
  Work work_;
};

TEST_F(GivenUp, WorkIsWrittenByNobodyWhenItsRankLeaves) {
  own_ = -7;  // the caller's again: its wait has thrown, or an error has come between
  comms_[0].reset();
  EXPECT_EQ(own_, -7);
}

TEST_F(GivenUp, WorkThatAllHaveComeToIsCompletedForItsCaller) {
  work_.wait();
  EXPECT_EQ(own_, 2);
}

using VisitsDeathTest = Visits;

TEST_F(VisitsDeathTest, AThreadThatStaysInsideEndsTheProcessWithAMessage) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto stay = [&] {
    const auto own = world_of(0, milliseconds(20));
    const auto other = world_of(1);
    const SharedWorld::Visit visit(*other);
    own->break_with("enough");
    own->drain();
  };
  EXPECT_DEATH(stay(), "expected the thread of rank 1 to leave the buffers of rank 0 within 0.02 s .* broke: enough");
}

TEST_F(Visits, WithoutPatienceAVisitMayLastAsLongAsItTakes) {
  const auto own = world_of(0, milliseconds(0)), other = world_of(1);
  std::atomic<bool> inside = false, left = false;
  std::jthread visitor([&] {
    const SharedWorld::Visit visit(*other);
    inside = true;
    std::this_thread::sleep_for(milliseconds(700));  // longer than drain() looks on without doing anything
    left = true;
  });
  while (!inside) std::this_thread::yield();
  own->break_with("enough");
  own->drain();
  EXPECT_TRUE(left);
}

}  // namespace
}  // namespace starling::dist
