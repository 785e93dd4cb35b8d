// Byte counts of the direct exchange. Between threads "sent" counts bytes of this rank's memory that other ranks read.
#include <gtest/gtest.h>

#include "dist/comm_worlds.h"
#include "dist/shared_worlds.h"

namespace starling::dist {
namespace {

class Laws : public ::testing::TestWithParam<std::tuple<Backend, int>> {
 protected:
  static std::uint64_t world() { return static_cast<std::uint64_t>(std::get<1>(GetParam())); }

  // Runs the body on all ranks and returns each rank's counters of the op.
  static std::vector<OpCounters> count(CommOp op, const std::function<void(Comm&)>& body) {
    const Comms comms = std::get<0>(GetParam()).make(std::get<1>(GetParam()));
    run_ranks(comms, body);
    std::vector<OpCounters> counters;
    for (const auto& comm : comms) counters.push_back(comm->journal().counters(op));
    return counters;
  }
};

INSTANTIATE_TEST_SUITE_P(Backends, Laws,
                         ::testing::Combine(::testing::Values(threads_backend(), checking_backend(), faulty_backend()),
                                            ::testing::Values(1, 2, 3, 8)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_P" + std::to_string(std::get<1>(info.param));
                         });

INSTANTIATE_TEST_SUITE_P(Shared, Laws,
                         ::testing::Combine(::testing::Values(shared_backend()), ::testing::Values(1, 2, 3, 8)),
                         [](const auto& info) { return "shared_P" + std::to_string(std::get<1>(info.param)); });

TEST_P(Laws, AllReduceSendsTwicePMinusOneOverPOfTheBuffer) {
  constexpr std::int64_t kCount = 8 * 9 * 5 * 7 * 10;  // divisible by every tested world size
  const auto counters = count(CommOp::all_reduce, [](Comm& comm) {
    std::vector<float> data(kCount, 1.0f);
    for (int i = 0; i < 3; ++i) comm.all_reduce(data.data(), data.data(), kCount, DType::f32, ReduceOp::sum).wait();
  });
  for (const OpCounters& c : counters) {
    EXPECT_EQ(c.calls, 3u);
    EXPECT_EQ(c.bytes_sent, 3 * 2 * (world() - 1) * kCount * 4 / world());
    EXPECT_EQ(c.bytes_received, c.bytes_sent);
    EXPECT_EQ(c.steps, world() == 1 ? 0u : 3u * 2u);
    EXPECT_EQ(c.messages, 3 * 2 * (world() - 1));
  }
}

TEST_P(Laws, AllReduceOfCountsThatDoNotDivideSendsTheSameInTotal) {
  constexpr std::uint64_t kCount = 1013;
  const auto counters = count(CommOp::all_reduce, [](Comm& comm) {
    std::vector<double> data(kCount, 1.0);
    comm.all_reduce(data.data(), data.data(), kCount, DType::f64, ReduceOp::sum).wait();
  });
  std::uint64_t total = 0;
  for (const OpCounters& c : counters) total += c.bytes_sent;
  EXPECT_EQ(total, 2 * (world() - 1) * kCount * 8);
}

TEST_P(Laws, ReduceScatterAllGatherAndAllToAllSendHalfOfAnAllReduce) {
  for (CommOp op : {CommOp::reduce_scatter, CommOp::all_gather, CommOp::all_to_all}) {
    const auto counters = count(op, [&](Comm& comm) {
      std::vector<std::int32_t> large(static_cast<std::size_t>(100 * comm.size())), small(100), other(large.size());
      if (op == CommOp::reduce_scatter)
        comm.reduce_scatter(large.data(), small.data(), 100, DType::i32, ReduceOp::sum).wait();
      if (op == CommOp::all_gather) comm.all_gather(small.data(), large.data(), 100, DType::i32).wait();
      if (op == CommOp::all_to_all) comm.all_to_all(large.data(), other.data(), 100, DType::i32).wait();
    });
    for (const OpCounters& c : counters) {
      EXPECT_EQ(c.bytes_sent, (world() - 1) * 400) << name(op);
      EXPECT_EQ(c.bytes_received, (world() - 1) * 400) << name(op);
      EXPECT_EQ(c.steps, world() == 1 ? 0u : 1u) << name(op);
    }
  }
}

TEST_P(Laws, BroadcastSendsFromTheRootAlone) {
  const auto counters = count(CommOp::broadcast, [](Comm& comm) {
    std::vector<std::uint8_t> data(1000);
    comm.broadcast(data.data(), 1000, DType::u8, comm.size() - 1).wait();
  });
  for (std::size_t r = 0; r < counters.size(); ++r) {
    const bool root = r + 1 == counters.size();
    EXPECT_EQ(counters[r].bytes_sent, root ? (world() - 1) * 1000 : 0u);
    EXPECT_EQ(counters[r].bytes_received, root ? 0u : 1000u);
  }
}

TEST_P(Laws, GatherAndScatterMoveEachPieceOnce) {
  for (CommOp op : {CommOp::gather, CommOp::scatter}) {
    const auto counters = count(op, [&](Comm& comm) {
      std::vector<std::int32_t> large(static_cast<std::size_t>(100 * comm.size())), small(100);
      if (op == CommOp::gather) comm.gather(small.data(), large.data(), 100, DType::i32, 0).wait();
      if (op == CommOp::scatter) comm.scatter(large.data(), small.data(), 100, DType::i32, 0).wait();
    });
    for (std::size_t r = 0; r < counters.size(); ++r) {
      const std::uint64_t at_root = (world() - 1) * 400, elsewhere = 400;
      const std::uint64_t out = op == CommOp::gather ? counters[r].bytes_sent : counters[r].bytes_received;
      const std::uint64_t in = op == CommOp::gather ? counters[r].bytes_received : counters[r].bytes_sent;
      EXPECT_EQ(out, r == 0 ? 0 : elsewhere) << name(op) << " on rank " << r;
      EXPECT_EQ(in, r == 0 ? at_root : 0) << name(op) << " on rank " << r;
    }
  }
}

TEST_P(Laws, ShardsAreReadOnceByTheOwnersOfTheirPieces) {
  constexpr std::uint64_t kCount = 8 * 3 * 10, kShards = 5;
  const auto counters = count(CommOp::sum_shards, [](Comm& comm) {
    std::vector<float> shards(kCount * kShards), sum(kCount);
    comm.sum_shards(shards.data(), kShards, sum.data(), kCount, DType::f32).wait();
  });
  for (const OpCounters& c : counters) EXPECT_EQ(c.bytes_sent, (kShards + 1) * (world() - 1) * kCount * 4 / world());
}

}  // namespace
}  // namespace starling::dist
