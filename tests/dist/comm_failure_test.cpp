// No hangs: a failure on one rank is an error on all ranks, in time, that names the cause.
#include <gtest/gtest.h>

#include <bit>
#include <csignal>
#include <numeric>
#include <thread>

#include "dist/comm_worlds.h"
#include "dist/shared_worlds.h"

namespace starling::dist {
namespace {

using std::chrono::milliseconds;

class Failure : public ::testing::TestWithParam<Backend> {};

INSTANTIATE_TEST_SUITE_P(Backends, Failure, ::testing::Values(threads_backend(), checking_backend(), faulty_backend()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Shared, Failure, ::testing::Values(shared_backend()),
                         [](const auto& info) { return info.param.name; });

TEST_P(Failure, AHangBecomesAnErrorThatNamesWhoIsMissing) {
  const Comms comms = GetParam().make(4);
  std::atomic<int> waiting{3};
  const CommTime start = CommClock::now();
  const auto errors = errors_of(comms, [&](Comm& comm) {
    float x = 1;
    comm.barrier().wait();
    if (comm.rank() == 2) {
      while (waiting.load() > 0) std::this_thread::sleep_for(milliseconds(1));
      return;
    }
    const Work work =
        comm.all_reduce(&x, &x, 1, DType::f32, ReduceOp::sum, {.name = "loss", .deadline = milliseconds(200)});
    try {
      work.wait();
    } catch (...) {
      --waiting;
      throw;
    }
  });
  EXPECT_GT(seconds_since(start), 0.19);
  EXPECT_LT(seconds_since(start), kAtOnce);
  const std::uint64_t sequence = comms[0]->journal().last_sequence(CommOp::all_reduce, -1);
  for (int rank : {0, 1, 3}) {
    const std::string& error = errors[static_cast<std::size_t>(rank)];
    EXPECT_TRUE(contains(
        error, "all_reduce(sum) f32 x 1 'loss' #" + std::to_string(sequence) + " on rank " + std::to_string(rank)));
    EXPECT_TRUE(
        contains(error, "the deadline has passed; not arrived: rank 2 (last started #" + std::to_string(sequence - 1)));
    EXPECT_TRUE(contains(error, "last finished by all #" + std::to_string(sequence - 1)));
    EXPECT_TRUE(contains(error, "not finished"));
  }
  EXPECT_EQ(errors[2], "");
}

TEST_P(Failure, AbortReachesWaitingRanksAtOnceAndLaterCallsToo) {
  const Comms comms = GetParam().make(3);
  const auto errors = errors_of(comms, [&](Comm& comm) {
    if (comm.rank() == 1) {
      std::this_thread::sleep_for(milliseconds(30));
      return comm.abort("out of paper");
    }
    const CommTime start = CommClock::now();
    EXPECT_THROW(comm.barrier().wait(), Error);
    EXPECT_LT(seconds_since(start), kAtOnce);
    comm.barrier().wait();
  });
  for (int rank : {0, 2}) {
    EXPECT_TRUE(contains(errors[static_cast<std::size_t>(rank)], "rank 1 of group 'world' aborted: out of paper"));
  }
}

TEST_P(Failure, ARankThatThrowsEndsTheWholeRunWithItsError) {
  try {
    run_ranks(GetParam().make(4), [](Comm& comm) {
      if (comm.rank() == 3) fail("[data] expected 784 columns, got 3");
      comm.barrier().wait();
    });
    FAIL() << "expected the error of rank 3";
  } catch (const Error& error) {
    EXPECT_TRUE(contains(error.what(), "[rank 3] [data] expected 784 columns"));
  }
}

TEST_P(Failure, ARankThatLeavesIsNamedByThoseThatNeedIt) {
  Comms comms = GetParam().make(3);
  const CommTime start = CommClock::now();
  const auto errors = errors_of(comms, [&](Comm& comm) {
    comm.barrier().wait();
    if (comm.rank() == 0) return comms[0].reset();
    comm.barrier({.name = "the end", .deadline = milliseconds(120'000)}).wait();
  });
  EXPECT_LT(seconds_since(start), kAtOnce);
  for (int rank : {1, 2}) {
    EXPECT_TRUE(
        contains(errors[static_cast<std::size_t>(rank)], "a rank has left; not arrived: rank 0 (left the group"))
        << rank;
  }
}

TEST_P(Failure, AReceiveWithoutASenderEndsAtItsDeadline) {
  const auto errors = errors_of(GetParam().make(2), [](Comm& comm) {
    int x = 0;
    if (comm.rank() == 0) comm.recv(&x, 1, DType::i32, 1, {.name = "token", .deadline = milliseconds(50)}).wait();
  });
  EXPECT_TRUE(contains(errors[0], "recv i32 x 1 'token' from rank 1 #1 on rank 0 of 2"));
  EXPECT_TRUE(contains(errors[0], "not arrived: rank 1"));
}

TEST_P(Failure, ATimedWaitMayBeRepeated) {
  std::atomic<bool> waited{false};
  run_ranks(GetParam().make(2), [&](Comm& comm) {
    const CommTime start = CommClock::now();
    while (comm.rank() == 1 && !waited && seconds_since(start) < kAtOnce) std::this_thread::sleep_for(milliseconds(1));
    const Work work = comm.barrier();
    if (comm.rank() == 0) {
      EXPECT_FALSE(work.wait_for(milliseconds(10)));
      waited = true;
    }
    work.wait();
    EXPECT_TRUE(work.wait_for(milliseconds(0)));
  });
}

Comms with_faults(int world, int rank, const FaultPlan& plan) {
  return wrap(make_thread_comms(world), [&](auto inner) {
    const bool faulty = inner->rank() == rank;
    return make_faulty(std::move(inner), faulty ? plan : FaultPlan{});
  });
}

TEST(Faults, ADeadRankIsNamedByTheOthers) {
  const auto errors = errors_of(with_faults(3, 1, {.die_at = 4}), [](Comm& comm) {
    for (int step = 0; step < 10; ++step) comm.barrier({.deadline = milliseconds(step < 3 ? 60'000 : 100)}).wait();
  });
  EXPECT_TRUE(contains(errors[0], "not arrived: rank 1 (last started #3)"));
  EXPECT_TRUE(contains(errors[1], "dead as planned"));
  EXPECT_TRUE(contains(errors[2], "not arrived: rank 1 (last started #3)"));
}

TEST(Faults, AFailedOperationFailsOnAllRanks) {
  const auto errors = errors_of(with_faults(3, 2, {.fail_at = 2}), [](Comm& comm) {
    for (int step = 0; step < 10; ++step) comm.barrier().wait();
  });
  for (const std::string& error : errors) EXPECT_TRUE(contains(error, "a planned fault at operation 2"));
}

// Tries of what a busy machine may spoil by holding up a thread.
constexpr int kTries = 10;

TEST(Faults, LatencyDelaysTheEndButNotTheCaller) {
  const Comms comms = wrap(make_thread_comms(2), [](auto inner) {
    return make_faulty(std::move(inner), {.latency = milliseconds(150), .every = 2});
  });
  run_ranks(comms, [](Comm& comm) {
    bool went_on = false;
    for (int i = 0; i < kTries; ++i) {
      comm.barrier().wait();
      const CommTime start = CommClock::now();
      const Work work = comm.barrier();
      went_on |= !work.done() && seconds_since(start) < 0.1;
      work.wait();
      EXPECT_GE(seconds_since(start), 0.149);
    }
    EXPECT_TRUE(went_on);
  });
}

TEST(Faults, ASlowRankShowsInTheWaitingTimeOfTheOthers) {
  std::uint64_t other = 0, slow = 0;
  for (int i = 0; i < kTries && (other <= 60'000'000u || slow >= other / 2); ++i) {
    const Comms comms = with_faults(2, 1, {.slow_start = milliseconds(30)});
    run_ranks(comms, [](Comm& comm) {
      for (int step = 0; step < 3; ++step) comm.barrier().wait();
    });
    other = comms[0]->journal().counters(CommOp::barrier).wait_ns;
    slow = comms[1]->journal().counters(CommOp::barrier).wait_ns;
  }
  EXPECT_GT(other, 60'000'000u);
  EXPECT_LT(slow, other / 2);
}

TEST(Faults, ALostOperationIsAHangThatEndsAtTheDeadlineOfTheOthers) {
  const auto errors = errors_of(with_faults(3, 1, {.drop_at = 2}), [](Comm& comm) {
    const milliseconds deadline(comm.rank() == 1 ? 5'000 : 1'000);
    for (int step = 0; step < 3; ++step) comm.barrier({.deadline = deadline}).wait();
  });
  for (int rank : {0, 2}) {
    EXPECT_TRUE(contains(errors[static_cast<std::size_t>(rank)], "not arrived: rank 1 (last started #1)"));
  }
  EXPECT_FALSE(errors[1].empty());
}

TEST(Faults, CorruptionFlipsOneBitOfWhatOneOperationBringsToOneRank) {
  std::vector<std::vector<std::uint8_t>> results(3);
  run_ranks(with_faults(3, 1, {.corrupt_at = 2}), [&](Comm& comm) {
    std::vector<std::uint8_t> data(30, 1);
    for (int step = 0; step < 3; ++step) {
      std::vector<std::uint8_t> sum(30);
      const Work work = comm.all_reduce(data.data(), sum.data(), 30, DType::u8, ReduceOp::sum);
      work.wait();
      work.wait();  // fails only once
      if (step == 1) {
        results[static_cast<std::size_t>(comm.rank())] = sum;
      } else {
        EXPECT_EQ(sum, std::vector<std::uint8_t>(30, 3));
      }
    }
  });
  const std::vector<std::uint8_t> right(30, 3);
  EXPECT_EQ(results[0], right);
  EXPECT_EQ(results[2], right);
  int bits = 0;
  for (std::size_t i = 0; i < 30; ++i) bits += std::popcount(static_cast<unsigned>(results[1][i] ^ right[i]));
  EXPECT_EQ(bits, 1);
}

TEST(Faults, ASlowRanksDelayIsProportionalToItsWork) {
  std::uint64_t waited = 0;
  for (int i = 0; i < kTries && waited <= 4u * 30'000'000u; ++i) {
    const Comms comms = with_faults(2, 1, {.slow_factor = 3});
    const CommTime start = CommClock::now();
    run_ranks(comms, [](Comm& comm) {
      comm.barrier().wait();
      for (int step = 0; step < 4; ++step) {
        std::this_thread::sleep_for(milliseconds(20));  // stands for computation
        comm.barrier().wait();
      }
    });
    EXPECT_GE(seconds_since(start), 4 * 3 * 0.020);
    waited = comms[0]->journal().counters(CommOp::barrier).wait_ns;
  }
  EXPECT_GT(waited, 4u * 30'000'000u);
}

TEST(FaultsDeathTest, AnInjectedDeathEndsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto run = [](FaultPlan::Death death) {
    const Comms comms = with_faults(1, 0, {.die_at = 3, .death = death});
    for (int step = 1; step <= 3; ++step) comms[0]->barrier().wait();
  };
  EXPECT_EXIT(run(FaultPlan::Death::exit), ::testing::ExitedWithCode(FaultPlan::kExitCode), "");
  EXPECT_EXIT(run(FaultPlan::Death::signal), ::testing::KilledBySignal(SIGKILL), "");
}

TEST(Threads, BuffersAreFreeOnceAnErrorIsThrown) {
  // Ranks abort the group during large reductions of others: sanitizers detect any late access.
  for (int round = 0; round < 20; ++round) {
    errors_of(make_thread_comms(4), [&](Comm& comm) {
      std::vector<float> data(300'000, 1.0f);
      if (comm.rank() == round % 4) {
        const Work work = comm.all_reduce(data.data(), data.data(), 300'000, DType::f32, ReduceOp::sum);
        comm.abort("now");
        return work.wait();
      }
      comm.all_reduce(data.data(), data.data(), 300'000, DType::f32, ReduceOp::sum).wait();
    });
  }
}

TEST(Threads, ALaneThatWaitsBlocksOnlyItself) {
  run_ranks(make_thread_comms(2), [](Comm& comm) {
    std::atomic<bool> reduced{false};
    float x = 1;
    std::jthread lane([&] {
      comm.all_reduce(&x, &x, 1, DType::f32, ReduceOp::sum).wait();
      reduced = true;
    });
    if (comm.rank() == 0) {
      while (!reduced) std::this_thread::yield();  // the thread continues while its lane waits for the slow rank
    } else {
      std::this_thread::sleep_for(milliseconds(20));
    }
    lane.join();
    EXPECT_EQ(x, 2.0f);
  });
}

TEST(FlightRecorder, KeepsTheLast64Operations) {
  const Comms comms = make_thread_comms(1);
  for (int i = 0; i < 100; ++i) comms[0]->barrier({.name = "b" + std::to_string(i)}).wait();
  const std::string dump = comms[0]->journal().dump();
  EXPECT_EQ(std::count(dump.begin(), dump.end(), '\n'), 64);
  EXPECT_TRUE(contains(dump, "barrier 'b36' #37 "));
  EXPECT_FALSE(contains(dump, "'b35'"));
  EXPECT_TRUE(contains(dump, "'b99' #100"));
  EXPECT_EQ(comms[0]->journal().last_finished(), 100u);
}

}  // namespace
}  // namespace starling::dist
