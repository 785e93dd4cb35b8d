#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "dist/comm_worlds.h"
#include "starling/dist/comm/shared/shared_comm.h"
#include "starling/dist/launch/store/store.h"
#include "testing/temporary_folder.h"

namespace starling::dist {
namespace {

using std::chrono::seconds;

// Rank 0 makes no call between its all-reduce and the end of rank 1's: nothing may wait for it to stage its buffer.
TEST(ThreadRanks, ReducePlainMemoryOfARankThatComputesOn) {
  constexpr std::int64_t kCount = 1 << 18;
  const Comms comms = make_thread_comms(2);
  std::atomic<bool> reduced{false};
  run_ranks(comms, [&](Comm& comm) {
    std::vector<float> data(kCount, static_cast<float>(comm.rank() + 1));
    Work work = comm.all_reduce(data.data(), data.data(), kCount, DType::f32, ReduceOp::sum);
    const CommTime end = CommClock::now() + seconds(20);
    while (comm.rank() == 0 && !reduced && CommClock::now() < end) std::this_thread::yield();
    if (comm.rank() == 1) reduced = work.wait_for(seconds(15));
    EXPECT_TRUE(reduced);
    work.wait();
    EXPECT_EQ(data, std::vector<float>(kCount, 3.0f));
  });
}

TEST(ThreadRanks, NeedNoArena) {
  for (const auto& comm : make_thread_comms(2)) {
    EXPECT_EQ(comm->capabilities().backend, "threads");
    EXPECT_EQ(comm->arena(), nullptr);
  }
}

TEST(ThreadRanks, AreNoProcesses) {
  const testing::TemporaryFolder folder;
  const auto store = make_file_store(folder.path());
  EXPECT_THROW(make_shared_comm(*store, 0, 1, {.whole_process = true}), Error);
}

}  // namespace
}  // namespace starling::dist
