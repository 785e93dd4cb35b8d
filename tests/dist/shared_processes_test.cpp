// Shared memory between real processes: the conformance suite, and what happens when one of them is killed.
#include <filesystem>
#include <fstream>
#include <random>
#include <string>

#include "dist/comm_conformance.h"
#include "dist/rank_processes.h"
#include "dist/shared_worlds.h"
#include "starling/dist/comm/shared/shared_world.h"
#include "starling/dist/launch/store/store.h"

namespace starling::dist {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kLong{20'000};  // deadline of tests that do not test deadlines

std::unique_ptr<Comm> join(const RankProcesses& ranks, int rank, SharedWorldOptions options = {}) {
  if (options.arena_bytes == 0) options.arena_bytes = 64 << 20;
  const auto store = make_file_store(ranks.folder());
  return make_shared_comm(*store, rank, ranks.world(), options);
}

// Parts of this process's memory and descriptors that are shared memory of ours.
int shared_memory_here() {
  int count = 0;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) count += line.find("/memfd:starling") != std::string::npos ? 1 : 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code closed;  // the descriptor of this very listing
    const std::string file = std::filesystem::read_symlink(entry.path(), closed).string();
    count += file.find("/memfd:starling") != std::string::npos ? 1 : 0;
  }
  return count;
}

class SharedProcesses : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Worlds, SharedProcesses, ::testing::Values(1, 2, 3));

TEST_P(SharedProcesses, PassTheConformanceSuite) {
  RankProcesses ranks(GetParam());
  ranks.start_all([&](int rank) {
    auto comm = join(ranks, rank);
    if (shared_memory_here() == 0) return "shares nothing";
    if (!conformance::run_conformance(*comm)) return "failed";
    comm.reset();
    return shared_memory_here() == 0 ? "passed" : "keeps shared memory";
  });
  for (int r = 0; r < ranks.world(); ++r) {
    ASSERT_TRUE(ranks.await(r, kLong)) << r;
    EXPECT_EQ(ranks.report(r), "passed") << r;
  }
}

TEST(SharedProcess, ArenasOfOtherProcessesAreReducedInPlace) {
  RankProcesses ranks(3);
  ranks.start_all([&](int rank) {
    const auto comm = join(ranks, rank);
    constexpr std::int64_t kCount = 300'001;
    const ArenaBuffer padding(comm->arena(), static_cast<std::size_t>(rank + 1) * 5000);  // offsets differ by rank
    const ArenaBuffer buffer(comm->arena(), kCount * sizeof(float));
    auto* data = buffer.as<float>();
    for (int round = 0; round < 5; ++round) {
      for (std::int64_t i = 0; i < kCount; ++i) data[i] = static_cast<float>(i % 1000 + rank);
      comm->all_reduce(data, data, kCount, DType::f32, ReduceOp::sum).wait();
      for (std::int64_t i = 0; i < kCount; ++i) {
        if (data[i] != static_cast<float>(3 * (i % 1000) + 3)) fail("element {} is {}", i, data[i]);
      }
      comm->barrier().wait();
    }
    return "right";
  });
  for (int r = 0; r < 3; ++r) {
    ASSERT_TRUE(ranks.await(r, kLong));
    EXPECT_EQ(ranks.report(r), "right");
  }
}

// Endless mix of operations: small and staged sums, sums in arenas, messages, subgroups.
[[noreturn]] void work_for_ever(Comm& comm) {
  constexpr std::int64_t kCount = 60'000;
  const ArenaBuffer shared(comm.arena(), kCount * sizeof(float));
  std::fill_n(shared.as<float>(), kCount, 0.0f);
  std::vector<float> plain(kCount, 0.0f), received(kCount);
  float one = 0;
  const int next = (comm.rank() + 1) % comm.size(), previous = (comm.rank() + comm.size() - 1) % comm.size();
  for (;;) {
    comm.all_reduce(&one, &one, 1, DType::f32, ReduceOp::sum, {.name = "one"}).wait();
    comm.all_reduce(plain.data(), plain.data(), kCount, DType::f32, ReduceOp::sum, {.name = "plain"}).wait();
    comm.all_reduce(shared.as<float>(), shared.as<float>(), kCount, DType::f32, ReduceOp::sum, {.name = "arena"})
        .wait();
    const Work sent = comm.send(plain.data(), kCount, DType::f32, next, {.name = "message"});
    comm.recv(received.data(), kCount, DType::f32, previous, {.name = "message"}).wait();
    sent.wait();
    const auto part = comm.split(comm.rank() % 2, 0);
    part->barrier().wait();
  }
}

TEST(SharedProcess, ARankKilledAtAnyMomentIsNamedByAllOthersWithinASecond) {
  std::mt19937 random(7);
  int late = 0;
  for (int round = 0; round < 8; ++round) {
    RankProcesses ranks(3);
    int joined[2];
    ASSERT_EQ(pipe(joined), 0);
    ranks.start_all([&](int rank) -> std::string {
      const auto comm = join(ranks, rank);
      comm->barrier().wait();
      check(write(joined[1], "j", 1) == 1, "expected to tell that this rank has joined");
      work_for_ever(*comm);
    });
    char text[3];
    for (std::size_t told = 0; told < 3;) {
      const ssize_t n = read(joined[0], text, sizeof(text) - told);
      ASSERT_GT(n, 0);
      told += static_cast<std::size_t>(n);
    }
    const int victim = static_cast<int>(random() % 3);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 30'000));
    ranks.kill(victim);
    const CommTime start = CommClock::now();
    for (int r = 0; r < 3; ++r) {
      if (r == victim) continue;
      ASSERT_TRUE(ranks.await(r, kLong)) << r;
      if (seconds_since(start) > 1.0) ++late;
      const std::string named =
          "rank " + std::to_string(victim) + " (process " + std::to_string(ranks.pid(victim)) + ") has died; it ";
      EXPECT_TRUE(contains(ranks.report(r), named));
      EXPECT_TRUE(contains(ranks.report(r), "last started "));
    }
    close(joined[0]);
    close(joined[1]);
  }
  EXPECT_LE(late, 1);  // tolerance for a busy machine
}

// Also if a rank is killed before all ranks have met.
// Label: waits
TEST(SharedProcess, NoRankHangsWhenOneIsKilledWhileTheyMeet) {
  std::mt19937 random(11);
  for (int round = 0; round < 6; ++round) {
    RankProcesses ranks(3);
    ranks.start_all([&](int rank) -> std::string {
      const auto comm = join(ranks, rank, {.join_deadline = milliseconds(1500)});
      work_for_ever(*comm);
    });
    const int victim = static_cast<int>(random() % 3);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 3'000));
    ranks.kill(victim);
    for (int r = 0; r < 3; ++r) {
      ASSERT_TRUE(ranks.await(r, kLong)) << r;
      if (r != victim) {
        EXPECT_TRUE(contains(ranks.report(r), "error: ")) << r;
      }
    }
  }
}

TEST(SharedProcess, ARankThatDiedWhileOthersWereAwaitedIsNamed) {
  RankProcesses ranks(3);  // rank 2 never comes
  for (int r : {0, 1}) {
    ranks.start(r, [&](int rank) {
      join(ranks, rank);
      return "joined";
    });
  }
  std::this_thread::sleep_for(milliseconds(150));
  ranks.kill(1);
  const CommTime start = CommClock::now();
  ASSERT_TRUE(ranks.await(0, kLong));
  EXPECT_LT(seconds_since(start), kAtOnce);
  EXPECT_TRUE(contains(ranks.report(0), "rank 1 (process " + std::to_string(ranks.pid(1)) + ") has died"));
}

TEST(SharedProcess, RanksThatNeverCameAreNamedAtTheDeadline) {
  RankProcesses ranks(3);
  ranks.start(0, [&](int rank) {
    join(ranks, rank, {.join_deadline = milliseconds(100)});
    return "joined";
  });
  ASSERT_TRUE(ranks.await(0, kLong));
  EXPECT_TRUE(contains(ranks.report(0), "not there: rank 1, rank 2"));
}

TEST(SharedProcess, AStoppedRankIsMissedAtTheDeadline) {
  RankProcesses ranks(2);
  ranks.start_all([&](int rank) {
    const auto comm = join(ranks, rank);
    comm->barrier().wait();
    if (rank == 1) raise(SIGSTOP);
    comm->barrier({.name = "after", .deadline = milliseconds(300)}).wait();
    return "passed";
  });
  ASSERT_TRUE(ranks.await(0, kLong));
  EXPECT_TRUE(contains(ranks.report(0), "the deadline has passed; not arrived: rank 1"));
}

// Rank 1 is stopped inside a visit while rank 0 breaks the world and drains it.
void stop_inside_a_visit(RankProcesses& ranks, milliseconds patience) {
  ranks.start_all([&](int rank) {
    const auto store = make_file_store(ranks.folder() + "/store");
    std::shared_ptr<Mapping> mapping;
    if (rank == 0) {
      mapping = make_world_memory(2, "visits", 1 << 20);
      store->set("memory", mapping->address());
    } else {
      mapping = Mapping::open(store->get("memory", kLong));
    }
    SharedWorld world(mapping, rank, 0, SharedWorld::Reach::arenas, patience);
    world.await_all(CommClock::now() + kLong);
    if (rank == 1) {
      const SharedWorld::Visit visit(world);
      store->set("inside", "yes");
      raise(SIGSTOP);
      return "went on";
    }
    store->get("inside", kLong);
    std::this_thread::sleep_for(milliseconds(50));
    world.break_with("enough");
    world.drain();
    return "drained";
  });
}

// A rank that went on would write into buffers that others have got back long ago.
TEST(SharedProcess, ARankStoppedInsideAVisitNeverGoesOn) {
  RankProcesses ranks(2);
  stop_inside_a_visit(ranks, SharedWorld::kVisitPatience);
  ASSERT_TRUE(ranks.await(0, kLong));
  EXPECT_EQ(ranks.report(0), "drained");
  ranks.kill(1, SIGCONT);
  ASSERT_TRUE(ranks.await(1, kLong));
  EXPECT_EQ(ranks.report(1), "");
}

// Label: waits
TEST(SharedProcess, ARankHeldInsideAVisitIsWaitedForWhereNobodyIsSupervised) {
  RankProcesses ranks(2);
  stop_inside_a_visit(ranks, milliseconds(0));
  EXPECT_FALSE(ranks.await(0, milliseconds(1'200)));
  ranks.kill(1, SIGCONT);
  ASSERT_TRUE(ranks.await(1, kLong));
  EXPECT_EQ(ranks.report(1), "went on");
  ASSERT_TRUE(ranks.await(0, kLong));
  EXPECT_EQ(ranks.report(0), "drained");
}

TEST(SharedProcess, ARankThatExitsWithoutLeavingIsNamedAndOneThatLeavesIsNot) {
  RankProcesses ranks(2);
  ranks.start_all([&](int rank) {
    const auto comm = join(ranks, rank);
    comm->barrier().wait();
    if (rank == 1) _exit(0);
    comm->barrier().wait();
    return "passed";
  });
  ASSERT_TRUE(ranks.await(0, kLong));
  EXPECT_TRUE(contains(ranks.report(0), "rank 1 (process "));
  RankProcesses again(2);
  again.start_all([&](int rank) {
    auto comm = join(again, rank);
    comm->barrier().wait();
    if (rank == 1) return "left";
    std::this_thread::sleep_for(milliseconds(300));
    float x = 1;
    EXPECT_THROW(comm->all_reduce(&x, &x, 1, DType::f32, ReduceOp::sum).wait(), Error);
    return "alone";
  });
  ASSERT_TRUE(again.await(0, kLong));
  EXPECT_EQ(again.report(0), "alone");
}

// One of them is told, whichever comes second. Rank 2 never comes.
// Label: waits
TEST(SharedProcess, TwoProcessesCannotBeOneRank) {
  RankProcesses ranks(3);
  const auto be = [&](int as) {
    return [&ranks, as](int) {
      join(ranks, as, {.join_deadline = milliseconds(2'000)});
      return "joined";
    };
  };
  ranks.start(0, be(0));
  ranks.start(1, be(1));
  ranks.start(2, be(1));
  ASSERT_TRUE(ranks.await(1, kLong));
  ASSERT_TRUE(ranks.await(2, kLong));
  const std::string told = "expected one process for rank 1";
  const bool first{contains(ranks.report(1), told)}, second{contains(ranks.report(2), told)};
  EXPECT_NE(first, second) << ranks.report(1) << ranks.report(2);
}

}  // namespace
}  // namespace starling::dist
