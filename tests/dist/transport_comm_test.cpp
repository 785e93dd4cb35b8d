// Collectives over transports: every algorithm through the communicator, byte counts, and failures.
#include "starling/dist/comm/transport/transport_comm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <latch>
#include <map>
#include <thread>

#include "dist/comm_conformance.h"
#include "dist/transport_worlds.h"

namespace starling::dist {
namespace {

using std::chrono::milliseconds;

// ---- every algorithm, run ----

struct Forced {
  std::string name;
  CommOp op;
};

void PrintTo(const Forced& f, std::ostream* out) { *out << f.name << " " << name(f.op); }

std::vector<Forced> all_forced() {
  std::vector<Forced> all;
  for (const Algorithm& algorithm : algorithms())
    for (const auto& [op, make] : algorithm.makers) all.push_back({std::string(algorithm.name), op});
  return all;
}

class EveryAlgorithm : public ::testing::TestWithParam<std::tuple<Forced, int>> {};

TEST_P(EveryAlgorithm, ConformsAndCountsWhatItsScheduleSays) {
  const auto& [forced, world] = GetParam();
  TransportCommOptions options = with_test_costs(forcing(forced.op, forced.name));
  for (int r = 0; r < world; ++r) options.hosts.push_back(r / 2);
  const auto network = make_memory_network(world);
  const Comms comms = make_transport_comms(network, world, options);
  run_ranks(comms, [&](Comm& comm) {
    switch (forced.op) {
      case CommOp::all_reduce: return conformance::all_reduce(comm);
      case CommOp::reduce_scatter: return conformance::reduce_scatter(comm);
      case CommOp::all_gather: return conformance::all_gather(comm);
      case CommOp::all_to_all: return conformance::all_to_all(comm);
      case CommOp::broadcast: return conformance::broadcast(comm);
      case CommOp::gather: return conformance::gather(comm);
      case CommOp::scatter: return conformance::scatter(comm);
      default: return conformance::barrier(comm);
    }
  });
  // The journals' counts equal the network's, except for the initial rendezvous.
  std::uint64_t counted = 0, carried = 0, meeting = 0, messages = 0, carried_messages = 0, meeting_messages = 0;
  for (const auto& comm : comms) counted += comm->journal().total().bytes_sent;
  for (const auto& comm : comms) messages += comm->journal().total().messages;
  const auto apart = make_memory_network(world);
  (void)make_transport_comms(apart, world, options);
  for (int from = 0; from < world; ++from) {
    for (int to = 0; to < world; ++to) {
      carried += network->link_bytes(from, to);
      meeting += apart->link_bytes(from, to);
      carried_messages += network->link_messages(from, to);
      meeting_messages += apart->link_messages(from, to);
    }
  }
  EXPECT_EQ(counted, carried - meeting);
  EXPECT_EQ(messages, carried_messages - meeting_messages);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, EveryAlgorithm,
                         ::testing::Combine(::testing::ValuesIn(all_forced()), ::testing::Values(1, 2, 3, 4, 7, 8)),
                         [](const auto& info) {
                           const Forced& f = std::get<0>(info.param);
                           return f.name + "_" + std::string(name(f.op)) + "_P" +
                                  std::to_string(std::get<1>(info.param));
                         });

TEST(TransportComm, CountsARoundOfItsScheduleAsAStepWhenItBegins) {
  for (const std::uint64_t world : {2, 4, 8}) {
    const auto log2 = static_cast<std::uint64_t>(std::bit_width(world) - 1);
    const std::map<std::string, std::uint64_t> rounds = {{"ring", 2 * (world - 1)},      {"direct", 2},
                                                         {"halving_doubling", 2 * log2}, {"recursive_doubling", log2},
                                                         {"linear", 2 * (world - 1)},    {"one_shot", 1}};
    for (const auto& [algorithm, steps] : rounds) {
      const int size = static_cast<int>(world);
      const Comms comms = make_transport_comms(make_memory_network(size), size,
                                               with_test_costs(forcing(CommOp::all_reduce, algorithm)));
      run_ranks(comms, [](Comm& comm) {
        std::vector<double> data(800, 1.0);
        comm.all_reduce(data.data(), data.data(), 800, DType::f64, ReduceOp::sum).wait();
      });
      for (const auto& comm : comms)
        EXPECT_EQ(comm->journal().counters(CommOp::all_reduce).steps, steps) << algorithm << " of " << world;
    }
  }
}

TEST(TransportComm, CarriesExactlyNBytesPerLinkOfAChain) {
  constexpr std::int64_t kCount = 10'007;
  for (int world : {2, 3, 5, 8}) {
    MemoryLinks links;
    links.chain = true;
    const auto carried = [&](const std::string& algorithm) {
      const auto network = make_memory_network(world, links);
      TransportCommOptions options = with_test_costs(forcing(CommOp::all_reduce, algorithm));
      const Comms comms = make_transport_comms(network, world, options);
      std::vector<std::uint64_t> before, bytes;
      const auto look = [&](std::vector<std::uint64_t>& into) {
        for (int r = 0; r + 1 < world; ++r) {
          into.push_back(network->link_bytes(r, r + 1));
          into.push_back(network->link_bytes(r + 1, r));
        }
      };
      look(before);
      run_ranks(comms, [](Comm& comm) {
        std::vector<float> data(kCount, 1.0f);
        comm.all_reduce(data.data(), data.data(), kCount, DType::f32, ReduceOp::sum).wait();
        EXPECT_EQ(data[kCount / 2], static_cast<float>(comm.size()));
      });
      look(bytes);
      for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] -= before[i];
      return bytes;
    };
    for (std::uint64_t bytes : carried("linear")) EXPECT_EQ(bytes, 4u * kCount) << world;
    if (world < 3) continue;
    for (std::uint64_t bytes : carried("ring")) EXPECT_GT(bytes, 4u * kCount) << world << ", the ring";
  }
}

TEST(TransportComm, AChainOfSlowLinksIsNoFasterThanItsModelSays) {
  constexpr int kWorld = 4;
  constexpr std::int64_t kCount = 50'000;  // 200 kB at 10 MB/s: 20 ms for n bytes
  MemoryLinks links;
  links.chain = true;
  links.usual = {.latency = std::chrono::microseconds(500), .bytes_per_second = 10e6};
  const auto seconds = [&](const std::string& algorithm) {
    const Comms comms = make_transport_comms(make_memory_network(kWorld, links), kWorld,
                                             with_test_costs(forcing(CommOp::all_reduce, algorithm)));
    std::atomic<double> slowest{0};
    run_ranks(comms, [&](Comm& comm) {
      std::vector<float> data(kCount, 1.0f);
      comm.barrier().wait();
      const CommTime start = CommClock::now();
      comm.all_reduce(data.data(), data.data(), kCount, DType::f32, ReduceOp::sum).wait();
      if (comm.rank() == 1) slowest = seconds_since(start);
    });
    return slowest.load();
  };
  const LinkCosts link{.latency = 500e-6, .overhead = 0, .per_byte = 1 / 10e6, .reduce_byte = 1e-10};
  const double predicted =
      predict(linear_algorithm(), {.op = CommOp::all_reduce, .size = kWorld, .count = kCount, .element_bytes = 4},
              {.far = link, .near = link, .chain = true});
  EXPECT_GT(seconds("linear"), 0.8 * predicted);
}

// ---- choice ----

TEST(TransportComm, SaysWhatItRunsAndWhy) {
  const Comms comms = make_memory_comms(4);
  const std::string small = explain(*comms[0], CommOp::all_reduce, 1, DType::f32);
  const std::string large = explain(*comms[0], CommOp::all_reduce, 10'000'000, DType::f32);
  EXPECT_TRUE(contains(small, "all_reduce of 4 bytes over 4 ranks: one_shot, 1 steps"));
  EXPECT_TRUE(contains(small, "; then recursive_doubling"));
  EXPECT_FALSE(contains(large, "over 4 ranks: one_shot"));
  EXPECT_EQ(explain(*make_thread_comms(1)[0], CommOp::all_reduce, 1, DType::f32), "");
}

TEST(TransportComm, MeasuresItsLinksWhenNoneAreGiven) {
  MemoryLinks links;
  links.usual = {.latency = milliseconds(2), .bytes_per_second = 50e6};
  const auto network = make_memory_network(3, links);
  const Comms comms = make_transport_comms(network, 3, {});
  // A buffer whose transfer is short compared with 2 ms of latency: fewest steps win.
  EXPECT_TRUE(contains(explain(*comms[0], CommOp::all_reduce, 10, DType::f32), ": one_shot"));
  EXPECT_TRUE(contains(explain(*comms[0], CommOp::all_reduce, 10, DType::f32), "recursive_doubling"));
  EXPECT_EQ(explain(*comms[0], CommOp::all_reduce, 5'000'000, DType::f32),
            explain(*comms[2], CommOp::all_reduce, 5'000'000, DType::f32))
      << "ranks must choose alike";
  run_ranks(comms, [](Comm& comm) { conformance::many_outstanding(comm); });
}

// Two emulated hosts of two ranks: measured costs decide.
TEST(TransportComm, TakesTheHierarchicalAlgorithmWhenLinksBetweenHostsAreSlow) {
  constexpr int kWorld = 4;
  constexpr std::int64_t kCount = 60'000;
  MemoryLinks links;
  TransportCommOptions measured;
  for (int from = 0; from < kWorld; ++from) {
    measured.hosts.push_back(from / 2);
    for (int to = 0; to < kWorld; ++to)
      if (from / 2 != to / 2) links.special[{from, to}] = {.latency = milliseconds(2), .bytes_per_second = 10e6};
  }
  const Comms comms = make_transport_comms(make_memory_network(kWorld, links), kWorld, measured);
  EXPECT_TRUE(contains(explain(*comms[0], CommOp::all_reduce, kCount, DType::f32), "over 4 ranks: hierarchical"));
  run_ranks(comms, [&](Comm& comm) {
    std::vector<float> data(kCount, 1.0f);
    comm.all_reduce(data.data(), data.data(), kCount, DType::f32, ReduceOp::sum).wait();
    EXPECT_EQ(data[7], 4.0f);
  });
}

TEST(TransportComm, RefusesRanksThatWereToldDifferentThings) {
  const auto network = make_memory_network(2);
  std::vector<std::string> errors(2);
  {
    std::vector<std::jthread> threads;
    for (int r = 0; r < 2; ++r) {
      threads.emplace_back([&, r] {
        try {
          const CommGroup group{.rank = r, .size = 2, .epoch = static_cast<std::uint64_t>(7 + r)};
          (void)make_transport_comm(network->endpoint(r), group, with_test_costs());
        } catch (const Error& error) {
          errors[static_cast<std::size_t>(r)] = error.what();
        }
      });
    }
  }
  EXPECT_TRUE(contains(errors[0] + errors[1], "the same epoch"));
  EXPECT_TRUE(contains(errors[0] + errors[1], "7") && contains(errors[0] + errors[1], "8"));
  EXPECT_THROW((void)make_memory_comms(2, forcing(CommOp::all_reduce, "nonesuch")), Error);
}

// ---- failures ----

// Label: waits
TEST(TransportComm, AHangBecomesAnErrorThatNamesWhoIsMissing) {
  for (const std::string algorithm : {"ring", "one_shot", "halving_doubling"}) {
    const Comms comms = make_memory_comms(4, with_test_costs(forcing(CommOp::all_reduce, algorithm)));
    std::atomic<int> waiting{3};
    const CommTime start = CommClock::now();
    const auto errors = errors_of(comms, [&](Comm& comm) {
      float x = 1;
      comm.barrier().wait();
      if (comm.rank() == 2) {
        while (waiting.load() > 0) std::this_thread::sleep_for(milliseconds(1));
        return;
      }
      try {
        comm.all_reduce(&x, &x, 1, DType::f32, ReduceOp::sum, {.name = "loss", .deadline = milliseconds(200)}).wait();
      } catch (...) {
        --waiting;
        throw;
      }
    });
    EXPECT_GT(seconds_since(start), 0.19);
    EXPECT_LT(seconds_since(start), kAtOnce);
    for (int rank : {0, 1, 3}) {
      const std::string& error = errors[static_cast<std::size_t>(rank)];
      EXPECT_TRUE(contains(error, "all_reduce(sum) f32 x 1 'loss' #2 on rank " + std::to_string(rank))) << algorithm;
      EXPECT_TRUE(contains(error, "the deadline has passed; not arrived: rank 2 (silent); step ")) << algorithm;
      EXPECT_TRUE(contains(error, "not finished"));
    }
  }
}

// Label: waits
TEST(TransportComm, ARankThatWaitsElsewhereIsNamedWithWhatItStartedLast) {
  const auto errors = errors_of(make_memory_comms(3), [&](Comm& comm) {
    comm.barrier().wait();
    float x = 1;
    if (comm.rank() == 1) return comm.recv(&x, 1, DType::f32, 0, {.deadline = milliseconds(300)}).wait();
    comm.all_reduce(&x, &x, 1, DType::f32, ReduceOp::sum, {.deadline = milliseconds(200)}).wait();
  });
  EXPECT_TRUE(contains(errors[0], "not arrived: rank 1 (last started #1)"));
  EXPECT_TRUE(contains(errors[2], "not arrived: rank 1 (last started #1)"));
  EXPECT_TRUE(contains(errors[1], "recv f32 x 1 from rank 0 #1 on rank 1"));
}

TEST(TransportComm, AMessageWithoutAPartnerEndsAtItsDeadline) {
  const auto errors = errors_of(make_memory_comms(2), [](Comm& comm) {
    int x = 0;
    if (comm.rank() == 0) comm.recv(&x, 1, DType::i32, 1, {.name = "token", .deadline = milliseconds(50)}).wait();
  });
  EXPECT_TRUE(contains(errors[0], "recv i32 x 1 'token' from rank 1 #1 on rank 0 of 2"));
  EXPECT_TRUE(contains(errors[0], "not arrived: rank 1"));
}

TEST(TransportComm, AbortReachesWaitingRanksAtOnceAndLaterCallsToo) {
  const auto errors = errors_of(make_memory_comms(3), [&](Comm& comm) {
    if (comm.rank() == 1) {
      std::this_thread::sleep_for(milliseconds(30));
      return comm.abort("out of paper");
    }
    const CommTime start = CommClock::now();
    EXPECT_THROW(comm.barrier().wait(), Error);
    EXPECT_LT(seconds_since(start), kAtOnce);
    comm.barrier().wait();
  });
  for (int rank : {0, 2})
    EXPECT_TRUE(contains(errors[static_cast<std::size_t>(rank)], "rank 1 of group 'world' aborted: out of paper"));
}

TEST(TransportComm, ARankThatLeavesIsNamedByThoseThatNeedIt) {
  Comms comms = make_memory_comms(3);
  const CommTime start = CommClock::now();
  const auto errors = errors_of(comms, [&](Comm& comm) {
    comm.barrier().wait();
    if (comm.rank() == 0) return comms[0].reset();
    comm.barrier({.name = "the end", .deadline = milliseconds(120'000)}).wait();
  });
  EXPECT_LT(seconds_since(start), kAtOnce);
  for (int rank : {1, 2}) {
    EXPECT_TRUE(contains(errors[static_cast<std::size_t>(rank)], "rank 0 has left"));
    EXPECT_TRUE(contains(errors[static_cast<std::size_t>(rank)], "[comm] barrier "));
  }
}

TEST(TransportComm, EveryRankThatLeavesIsNamedWhateverTheAlgorithm) {
  constexpr int kWorld = 4;
  for (const Algorithm& algorithm : algorithms()) {
    if (algorithm.maker(CommOp::all_reduce) == nullptr) continue;
    for (int victim = 0; victim < kWorld; ++victim) {
      TransportCommOptions options = with_test_costs(forcing(CommOp::all_reduce, std::string(algorithm.name)));
      options.hosts = {0, 0, 1, 1};
      Comms comms = make_memory_comms(kWorld, options);
      const CommTime start = CommClock::now();
      const auto errors = errors_of(comms, [&](Comm& comm) {
        std::vector<float> data(1000, 1.0f);
        comm.all_reduce(data.data(), data.data(), 1000, DType::f32, ReduceOp::sum).wait();
        if (comm.rank() == victim) return comms[static_cast<std::size_t>(victim)].reset();
        for (int step = 0; step < 3; ++step)
          comm.all_reduce(data.data(), data.data(), 1000, DType::f32, ReduceOp::sum, {.name = "g"}).wait();
      });
      EXPECT_LT(seconds_since(start), kAtOnce);
      for (int r = 0; r < kWorld; ++r) {
        if (r == victim) continue;
        const std::string& error = errors[static_cast<std::size_t>(r)];
        EXPECT_TRUE(contains(error, "rank " + std::to_string(victim) + " has left")) << algorithm.name;
        EXPECT_TRUE(contains(error, "all_reduce(sum) f32 x 1000")) << algorithm.name;
      }
    }
  }
}

TEST(TransportComm, ARankMayLeaveWhileOthersThatDoNotNeedItWait) {
  Comms comms = make_memory_comms(3);
  run_ranks(comms, [&](Comm& comm) {
    const auto part = comm.split(comm.rank() == 0 ? -1 : 0, 0);
    if (comm.rank() == 0) return comms[0].reset();
    if (comm.rank() == 2) std::this_thread::sleep_for(milliseconds(100));
    part->barrier().wait();
  });
}

TEST(TransportComm, WaitingRanksMayPollARankThatHasLeft) {
  Comms comms = wrap(make_memory_comms(3), make_checking);
  run_ranks(comms, [&](Comm& comm) {
    if (comm.rank() == 0) return comms[0].reset();
    float x = 0;
    if (comm.rank() == 1) return comm.recv(&x, 1, DType::f32, 2).wait();
    std::this_thread::sleep_for(milliseconds(400));
    comm.send(&x, 1, DType::f32, 1).wait();
  });
}

TEST(TransportComm, LeavingWithoutWaitingIsToldToTheOthers) {
  Comms comms = make_memory_comms(2);
  std::latch left(1);
  const auto errors = errors_of(comms, [&](Comm& comm) {
    std::vector<float> data(1000);
    const auto reduce = [&] {
      return comm.all_reduce(data.data(), data.data(), 1000, DType::f32, ReduceOp::sum, {.name = "g"});
    };
    if (comm.rank() == 0) {
      [[maybe_unused]] const Work work = reduce();
      comms[0].reset();
      return left.count_down();
    }
    left.wait();  // rank 0 cannot have finished
    reduce().wait();
  });
  EXPECT_TRUE(contains(errors[1], "without waiting for all_reduce(sum) f32 x 1000 'g' #1"));
}

// Values that a rank writes into its buffers after an error stay there, however far the others are.
TEST(TransportComm, BuffersAreFreeOnceAnErrorIsThrown) {
  for (int round = 0; round < 10; ++round) {
    std::atomic<int> failed = 0;
    errors_of(make_memory_comms(4), [&](Comm& comm) {
      std::vector<float> data(100'000, 1.0f);
      const Work work = comm.all_reduce(data.data(), data.data(), 100'000, DType::f32, ReduceOp::sum);
      if (comm.rank() == round % 4) comm.abort("now");
      try {
        work.wait();
      } catch (const Error&) {
        std::fill(data.begin(), data.end(), 7.0f);
        ++failed;
        std::this_thread::sleep_for(milliseconds(3));
        EXPECT_EQ(std::count(data.begin(), data.end(), 7.0f), 100'000) << "rank " << comm.rank();
        throw;
      }
    });
    EXPECT_GE(failed, 1) << round;
  }
}

TEST(TransportComm, ALaneThatWaitsDoesNotHoldUpCallsOfOtherThreads) {
  run_ranks(make_memory_comms(2), [](Comm& comm) {
    float x = 1, y = 2;
    const auto part = comm.split(0, comm.rank());
    std::jthread lane([&] { comm.all_reduce(&x, &x, 1, DType::f32, ReduceOp::sum).wait(); });
    if (comm.rank() == 1) std::this_thread::sleep_for(milliseconds(30));
    part->all_reduce(&y, &y, 1, DType::f32, ReduceOp::sum).wait();
    lane.join();
    EXPECT_EQ(x, 2.0f);
    EXPECT_EQ(y, 4.0f);
  });
}

TEST(TransportComm, ADeadlineEndsThoughAnotherThreadGoesOnWaiting) {
  const CommTime start = CommClock::now();
  const auto errors = errors_of(make_memory_comms(2), [](Comm& comm) {
    const auto part = comm.split(0, comm.rank());
    float x = 1, y = 2;
    if (comm.rank() == 1) std::this_thread::sleep_for(milliseconds(600));
    std::jthread lane([&] {
      try {
        part->recv(&y, 1, DType::f32, 1 - part->rank(), {.deadline = milliseconds(120'000)}).wait();
      } catch (const Error&) {  // the group breaks
      }
    });
    comm.all_reduce(&x, &x, 1, DType::f32, ReduceOp::sum, {.deadline = milliseconds(50)}).wait();
  });
  EXPECT_LT(seconds_since(start), kAtOnce);
  EXPECT_TRUE(contains(errors[0], "the deadline has passed; not arrived: rank 1 (silent)"));
}

TEST(TransportComm, SubgroupsAndTheirParentsDoNotMixMessages) {
  run_ranks(make_memory_comms(6), [](Comm& comm) {
    const auto half = comm.split(comm.rank() / 3, 0);
    const auto pair = half->split(half->rank() == 0 ? 0 : 1, 0);
    const auto across = comm.split(comm.rank() % 3, 0);
    std::int64_t values[4] = {1, 1, 1, 1};
    const Work works[] = {comm.all_reduce(&values[0], &values[0], 1, DType::i64, ReduceOp::sum),
                          half->all_reduce(&values[1], &values[1], 1, DType::i64, ReduceOp::sum),
                          pair->all_reduce(&values[2], &values[2], 1, DType::i64, ReduceOp::sum),
                          across->all_reduce(&values[3], &values[3], 1, DType::i64, ReduceOp::sum)};
    for (const Work& work : works) work.wait();
    EXPECT_EQ(values[0], 6);
    EXPECT_EQ(values[1], 3);
    EXPECT_EQ(values[2], half->rank() == 0 ? 1 : 2);
    EXPECT_EQ(values[3], 2);
  });
}

TEST(TransportComm, RankOrderGivesTheBitsOfThreads) {
  TransportCommOptions options = with_test_costs();
  options.rank_ordered = true;
  constexpr std::int64_t kCount = 30'011;
  const auto sums = [&](const Comms& comms) {
    std::vector<float> result(kCount);
    run_ranks(comms, [&](Comm& comm) {
      auto data = conformance::input<float>(comm.rank(), kCount);
      comm.all_reduce(data.data(), data.data(), kCount, DType::f32, ReduceOp::mean).wait();
      if (comm.rank() == 0) result = data;
    });
    return result;
  };
  const auto threads = sums(make_thread_comms(5));
  EXPECT_TRUE(conformance::same_bits(sums(make_memory_comms(5, options)), threads));
  const auto ring = sums(make_memory_comms(5, with_test_costs(forcing(CommOp::all_reduce, "ring"))));
  EXPECT_FALSE(conformance::same_bits(ring, threads)) << "another order shows";
}

}  // namespace
}  // namespace starling::dist
