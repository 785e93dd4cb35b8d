#include "starling/base/parallel.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <numeric>
#include <stdexcept>
#include <thread>
#include <vector>

namespace starling {
namespace {

TEST(Parallel, EveryPieceRunsOnce) {
  for (int threads : {1, 2, 3, 8, 40}) {
    std::vector<int> runs(static_cast<std::size_t>(threads));
    for (int region = 0; region < 10; ++region)
      parallel_run(threads, [&](int piece) { ++runs[static_cast<std::size_t>(piece)]; });
    EXPECT_EQ(runs, std::vector<int>(static_cast<std::size_t>(threads), 10)) << threads;
  }
}

TEST(Parallel, RegionsOfChangingSizeFollowOneAnother) {
  std::atomic<int> sum{0};
  int want = 0;
  for (int region = 0; region < 200; ++region) {
    const int threads = 1 + region % 5;
    want += threads * (threads - 1) / 2;
    parallel_run(threads, [&](int piece) { sum += piece; });
  }
  EXPECT_EQ(sum.load(), want);
}

// Exit status of a forked process that runs a region of four pieces, and forks again as deep as asked.
int region_in_child(int depth) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // a region that waits for threads of the parent would wait for ever
    std::atomic<int> runs{0};
    parallel_run(4, [&](int) { ++runs; });
    _exit(runs.load() == 4 && (depth == 1 || region_in_child(depth - 1) == 0) ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return status;
}

TEST(Parallel, RegionsRunInForkedProcesses) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer does not follow threads into forked processes";
#endif
  parallel_run(4, [](int) {});  // the helpers of this process
  EXPECT_EQ(region_in_child(2), 0);
  std::atomic<int> runs{0};
  parallel_run(4, [&](int) { ++runs; });
  EXPECT_EQ(runs.load(), 4);
}

TEST(Parallel, ThreadsThatFellAsleepWakeUp) {
  std::atomic<int> runs{0};
  for (int region = 0; region < 20; ++region) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    parallel_run(3, [&](int) { ++runs; });
  }
  EXPECT_EQ(runs.load(), 60);
}

TEST(Parallel, TheCallerSleepsUntilTheSlowestHasEnded) {
  std::atomic<bool> ended{false};
  parallel_run(2, [&](int piece) {
    if (piece == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    ended = true;
  });
  EXPECT_TRUE(ended);
}

TEST(Parallel, TheFirstErrorIsThrownWhenAllHaveEnded) {
  for (int bad : {0, 1, 2}) {
    std::atomic<int> ended{0};
    const auto region = [&] {
      parallel_run(3, [&](int piece) {
        ++ended;
        if (piece == bad) throw std::runtime_error("piece " + std::to_string(piece));
      });
    };
    EXPECT_THROW(region(), std::runtime_error) << bad;
    EXPECT_EQ(ended.load(), 3) << bad;
  }
  int after = 0;
  parallel_run(1, [&](int) { ++after; });
  EXPECT_EQ(after, 1);
}

TEST(Parallel, RegionsInsideRegionsRunOneAfterAnother) {
  std::atomic<int> runs{0};
  parallel_run(3, [&](int) {
    const auto here = std::this_thread::get_id();
    parallel_run(4, [&](int) {
      EXPECT_EQ(std::this_thread::get_id(), here);
      ++runs;
    });
  });
  EXPECT_EQ(runs.load(), 12);
}

TEST(Parallel, CallersOnSeveralThreadsHaveTeamsOfTheirOwn) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 4; ++caller) {
    callers.emplace_back([&, caller] {
      const ThreadScope threads(3);
      for (int region = 0; region < 50; ++region) {
        std::vector<std::int64_t> squares(100, -1);
        parallel_for(100, 1, [&](std::int64_t begin, std::int64_t end) {
          for (auto i = begin; i < end; ++i) squares[static_cast<std::size_t>(i)] = i * i + caller;
        });
        for (std::int64_t i = 0; i < 100; ++i) wrong += squares[static_cast<std::size_t>(i)] != i * i + caller;
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(Parallel, AScopeSetsTheNumberOfItsThreadAlone) {
  const int before = num_threads();
  {
    const ThreadScope five(5);
    EXPECT_EQ(num_threads(), 5);
    int other = 0;
    std::thread([&] { other = num_threads(); }).join();
    EXPECT_NE(other, 0);
    const ThreadScope one(0);
    EXPECT_EQ(num_threads(), 1);
  }
  EXPECT_EQ(num_threads(), before);
}

}  // namespace
}  // namespace starling
