// Ranks on several hosts, emulated by threads: the conformance suite over many arrangements of ranks on hosts, and the
// bytes sent between hosts.
#include "dist/comm_conformance.h"
#include "dist/hosts_worlds.h"

namespace starling::dist {
namespace {

using HostOf = std::vector<int>;

const std::vector<HostOf>& host_maps() {
  static const std::vector<HostOf> all{
      {0},                          // a single rank
      {0, 1},                       // one rank a host
      {0, 0, 1, 1},                 // even
      {0, 1, 0, 1},                 // even, ranks dealt in turns
      {0, 1, 1, 0},                 // even; host order differs from rank order
      {0, 0, 0},                    // one host
      {0, 0, 1},                    // uneven
      {0, 1, 1, 2, 2, 2},           // uneven
      {0, 0, 0, 1, 1, 1, 2, 2, 2},  // 9 ranks
      {0, 1, 0, 2, 1, 0, 0, 2, 0},  // 9 ranks, uneven and mixed
  };
  return all;
}

std::string host_digits(const HostOf& host_of) {
  std::string text;
  for (int host : host_of) text += std::to_string(host);
  return text;
}

class HostsConformance : public ::testing::TestWithParam<std::tuple<HostsKind, HostOf, conformance::Check>> {};

TEST_P(HostsConformance, Holds) {
  const auto& [kind, host_of, check] = GetParam();
  run_ranks(hosts_comms(kind, host_of), check.run);
}

INSTANTIATE_TEST_SUITE_P(Hosts, HostsConformance,
                         ::testing::Combine(::testing::Values(threads_and_threads(), shared_and_transport()),
                                            ::testing::ValuesIn(host_maps()),
                                            ::testing::ValuesIn(conformance::checks())),
                         [](const auto& info) {
                           return std::get<2>(info.param).name + "_" + std::get<0>(info.param).name + "_" +
                                  host_digits(std::get<1>(info.param));
                         });

// Bytes sent between ranks of different hosts in one all-reduce.
std::uint64_t bytes_between_hosts(const HostOf& host_of, std::int64_t count, bool by_hosts) {
  const int size = static_cast<int>(host_of.size());
  std::shared_ptr<MemoryNetwork> network;
  const HostsKind kind{"counted", [](int n) { return make_thread_comms(n); },
                       [&](int n) {
                         network = make_memory_network(n);
                         return make_transport_comms(network, n, with_test_costs());
                       }};
  const Comms comms = by_hosts ? hosts_comms(kind, host_of) : kind.world(size);
  const auto crossed = [&] {
    std::uint64_t bytes = 0;
    for (int a = 0; a < size; ++a) {
      for (int b = 0; b < size; ++b) {
        if (host_of[static_cast<std::size_t>(a)] != host_of[static_cast<std::size_t>(b)])
          bytes += network->link_bytes(a, b);
      }
    }
    return bytes;
  };
  run_ranks(comms, [](Comm& comm) { comm.barrier().wait(); });
  const std::uint64_t before = crossed();
  run_ranks(comms, [&](Comm& comm) {
    std::vector<float> data(static_cast<std::size_t>(count), 1.0f);
    comm.all_reduce(data.data(), data.data(), count, DType::f32, ReduceOp::sum).wait();
    EXPECT_EQ(data.back(), static_cast<float>(comm.size()));
  });
  return crossed() - before;
}

// Two hosts of two ranks: each of the two shares crosses once in each direction, 2 n bytes in all. A ring over the four
// ranks dealt in turns crosses with every step, halving and doubling with every other: twice as much at least.
TEST(Hosts, AnAllReduceSendsOnlyOneShareOfEachRankBetweenHosts) {
  constexpr std::int64_t kCount = 100'000;
  constexpr std::uint64_t kBytes = kCount * 4;
  const std::uint64_t by_hosts = bytes_between_hosts({0, 1, 0, 1}, kCount, true);
  EXPECT_GE(by_hosts, 2 * kBytes);
  EXPECT_LT(by_hosts, 2 * kBytes + 2000);  // plus control messages
  EXPECT_GE(bytes_between_hosts({0, 1, 0, 1}, kCount, false), 4 * kBytes);
}

// Rank 0's sends outnumber what its peer has room for, while its part of the all-reduce still has to cross: a call that
// blocked would keep rank 2 from ever receiving.
TEST(Hosts, MessagesWithoutRoomDoNotHoldUpACollective) {
  for (const HostsKind& kind : {threads_and_threads(), shared_and_transport()}) {
    run_ranks(hosts_comms(kind, {0, 0, 1, 1}), [](Comm& comm) {
      constexpr int kMessages = 40;
      const CallOptions soon{.deadline = std::chrono::seconds(20)};
      std::vector<std::int64_t> data(kMessages, comm.rank() + 1);
      std::int64_t sum = 1;
      if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const Work reduced = comm.all_reduce(&sum, &sum, 1, DType::i64, ReduceOp::sum, soon);
      std::vector<Work> sent;
      if (comm.rank() == 0) {
        for (auto& value : data) sent.push_back(comm.send(&value, 1, DType::i64, 2, soon));
      }
      reduced.wait();
      EXPECT_EQ(sum, 4);
      if (comm.rank() == 2) {
        for (auto& value : data) comm.recv(&value, 1, DType::i64, 0, soon).wait();
        EXPECT_EQ(data, std::vector<std::int64_t>(kMessages, 1));
      }
      for (const Work& work : sent) work.wait();
    });
  }
}

TEST(Hosts, AFailureInsideOneHostReachesAll) {
  for (const HostsKind& kind : {threads_and_threads(), shared_and_transport()}) {
    const CommTime start = CommClock::now();
    const auto errors = errors_of(hosts_comms(kind, {0, 0, 1, 1, 1}), [](Comm& comm) {
      comm.barrier().wait();
      if (comm.rank() == 3) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return comm.abort("out of paper");
      }
      float x = 1;
      comm.all_reduce(&x, &x, 1, DType::f32, ReduceOp::sum, {.name = "loss"}).wait();
    });
    for (int rank : {0, 1, 2, 4}) {
      EXPECT_TRUE(contains(errors[static_cast<std::size_t>(rank)], "rank 3 of group 'world' aborted: out of paper"));
      EXPECT_TRUE(contains(errors[static_cast<std::size_t>(rank)], "'loss'"));
    }
    EXPECT_LT(seconds_since(start), kAtOnce);
  }
}

TEST(Hosts, AMissingRankEndsAtTheDeadlineOnAllHosts) {
  std::atomic<int> waiting{3};
  const auto errors = errors_of(hosts_comms(threads_and_threads(), {0, 0, 1, 1}), [&](Comm& comm) {
    comm.barrier().wait();
    if (comm.rank() == 2) {
      while (waiting.load() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      return;
    }
    try {
      comm.barrier({.name = "the end", .deadline = std::chrono::milliseconds(200)}).wait();
    } catch (...) {
      --waiting;
      throw;
    }
  });
  for (int rank : {0, 1, 3}) {
    EXPECT_TRUE(contains(errors[static_cast<std::size_t>(rank)], "the deadline has passed"));
  }
}

TEST(Hosts, AHostMapThatDoesNotFitIsRefused) {
  Comms local = make_thread_comms(1), world = make_thread_comms(1);
  EXPECT_THROW((void)make_hosts_comm(std::move(local[0]), std::move(world[0]), {0, 0}), Error);
  Comms two = make_thread_comms(2), one = make_thread_comms(1);
  EXPECT_THROW((void)make_hosts_comm(std::move(two[0]), std::move(one[0]), {0}), Error);
}

}  // namespace
}  // namespace starling::dist
