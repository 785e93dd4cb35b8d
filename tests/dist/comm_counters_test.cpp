// Laws of what collectives move, counted by the loops that copy and reduce. "Sent" counts bytes of this rank's memory
// that other ranks read.
#include <gtest/gtest.h>

#include "dist/comm_worlds.h"
#include "dist/shared_worlds.h"

namespace starling::dist {
namespace {

constexpr std::int64_t kCount = 8 * 9 * 5 * 7 * 10;  // divisible by every tested world size

class Laws : public ::testing::TestWithParam<std::tuple<Backend, int>> {
 protected:
  static bool is_shared() { return std::get<0>(GetParam()).name == "shared"; }
  static std::uint64_t world() { return static_cast<std::uint64_t>(std::get<1>(GetParam())); }

  // Runs the body on all ranks and returns each rank's counters of the op.
  static std::vector<OpCounters> count(CommOp op, const std::function<void(Comm&)>& body) {
    const Comms comms = std::get<0>(GetParam()).make(std::get<1>(GetParam()));
    run_ranks(comms, body);
    std::vector<OpCounters> counters;
    for (const auto& comm : comms) counters.push_back(comm->journal().counters(op));
    return counters;
  }

  // Of one all-reduce of so many f64.
  static std::vector<OpCounters> count_of(std::int64_t elements) {
    return count(CommOp::all_reduce, [elements](Comm& comm) {
      std::vector<double> data(static_cast<std::size_t>(elements), 1.0);
      comm.all_reduce(data.data(), data.data(), elements, DType::f64, ReduceOp::sum).wait();
      comm.barrier().wait();
    });
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

// Shares of staged buffers begin at cache lines, so that ranks differ by a few.
TEST_P(Laws, AllReduceSendsTwicePMinusOneOverPOfTheBuffer) {
  const auto counters = count(CommOp::all_reduce, [](Comm& comm) {
    std::vector<float> data(kCount, 1.0f);
    for (int i = 0; i < 3; ++i) comm.all_reduce(data.data(), data.data(), kCount, DType::f32, ReduceOp::sum).wait();
    comm.barrier().wait();
  });
  std::uint64_t sent = 0, received = 0;
  for (const OpCounters& c : counters) {
    EXPECT_EQ(c.calls, 3u);
    if (!is_shared()) {
      EXPECT_EQ(c.bytes_sent, 3 * 2 * (world() - 1) * kCount * 4 / world());
      EXPECT_EQ(c.bytes_received, c.bytes_sent);
    }
    sent += c.bytes_sent;
    received += c.bytes_received;
    EXPECT_EQ(c.steps, world() == 1 ? 0u : 3u * 2u);
    EXPECT_EQ(c.messages, 3 * 2 * (world() - 1));
  }
  EXPECT_EQ(sent, 3 * 2 * (world() - 1) * kCount * 4);
  EXPECT_EQ(received, sent);
}

// A small buffer lies in the slots of shared memory, and every rank reduces all of it for itself.
TEST_P(Laws, AllReduceOfCountsThatDoNotDivideSendsTheSameInTotal) {
  for (const std::uint64_t odd : {1013, 10007}) {
    const auto counters = count(CommOp::all_reduce, [odd](Comm& comm) {
      std::vector<double> data(odd, 1.0);
      comm.all_reduce(data.data(), data.data(), static_cast<std::int64_t>(odd), DType::f64, ReduceOp::sum).wait();
      comm.barrier().wait();
    });
    std::uint64_t sent = 0, received = 0;
    for (const OpCounters& c : counters) {
      sent += c.bytes_sent;
      received += c.bytes_received;
    }
    const bool small = odd * 8 <= 8192;
    EXPECT_EQ(sent, (small ? world() : 2) * (world() - 1) * odd * 8) << odd;
    EXPECT_EQ(received, sent) << odd;
  }
}

TEST_P(Laws, ReduceScatterAllGatherAndAllToAllSendHalfOfAnAllReduce) {
  for (CommOp op : {CommOp::reduce_scatter, CommOp::all_gather, CommOp::all_to_all}) {
    const auto counters = count(op, [&](Comm& comm) {
      std::vector<std::int32_t> large(static_cast<std::size_t>(100 * comm.size())), small(100), other(large.size());
      if (op == CommOp::reduce_scatter)
        comm.reduce_scatter(large.data(), small.data(), 100, DType::i32, ReduceOp::sum).wait();
      if (op == CommOp::all_gather) comm.all_gather(small.data(), large.data(), 100, DType::i32).wait();
      if (op == CommOp::all_to_all) comm.all_to_all(large.data(), other.data(), 100, DType::i32).wait();
      comm.barrier().wait();
    });
    for (const OpCounters& c : counters) {
      EXPECT_EQ(c.bytes_sent, (world() - 1) * 400) << name(op);
      EXPECT_EQ(c.bytes_received, (world() - 1) * 400) << name(op);
      EXPECT_EQ(c.steps, world() == 1 ? 0u : 1u) << name(op);
      EXPECT_EQ(c.messages, world() - 1) << name(op);
    }
  }
}

TEST_P(Laws, BroadcastSendsFromTheRootAlone) {
  const auto counters = count(CommOp::broadcast, [](Comm& comm) {
    std::vector<std::uint8_t> data(1000);
    comm.broadcast(data.data(), 1000, DType::u8, comm.size() - 1).wait();
    comm.barrier().wait();
  });
  for (std::size_t r = 0; r < counters.size(); ++r) {
    const bool root = r + 1 == counters.size();
    EXPECT_EQ(counters[r].bytes_sent, root ? (world() - 1) * 1000 : 0u);
    EXPECT_EQ(counters[r].bytes_received, root ? 0u : 1000u);
    EXPECT_EQ(counters[r].messages, root ? world() - 1 : 0u);
    EXPECT_EQ(counters[r].steps, world() == 1 ? 0u : 1u);
  }
}

TEST_P(Laws, GatherAndScatterMoveEachPieceOnce) {
  for (CommOp op : {CommOp::gather, CommOp::scatter}) {
    const auto counters = count(op, [&](Comm& comm) {
      std::vector<std::int32_t> large(static_cast<std::size_t>(100 * comm.size())), small(100);
      if (op == CommOp::gather) comm.gather(small.data(), large.data(), 100, DType::i32, 0).wait();
      if (op == CommOp::scatter) comm.scatter(large.data(), small.data(), 100, DType::i32, 0).wait();
      comm.barrier().wait();
    });
    for (std::size_t r = 0; r < counters.size(); ++r) {
      const std::uint64_t at_root = (world() - 1) * 400, elsewhere = 400;
      const std::uint64_t out = op == CommOp::gather ? counters[r].bytes_sent : counters[r].bytes_received;
      const std::uint64_t in = op == CommOp::gather ? counters[r].bytes_received : counters[r].bytes_sent;
      EXPECT_EQ(out, r == 0 ? 0 : elsewhere) << name(op) << " on rank " << r;
      EXPECT_EQ(in, r == 0 ? at_root : 0) << name(op) << " on rank " << r;
      const std::uint64_t sends = op == CommOp::gather ? (r == 0 ? 0 : 1) : (r == 0 ? world() - 1 : 0);
      EXPECT_EQ(counters[r].messages, sends) << name(op) << " on rank " << r;
      EXPECT_EQ(counters[r].steps, world() == 1 ? 0u : 1u) << name(op) << " on rank " << r;
    }
  }
}

TEST_P(Laws, FewShardsAreReadByEveryRank) {
  constexpr std::uint64_t kFew = 8 * 3 * 10, kShards = 5;
  const auto counters = count(CommOp::sum_shards, [](Comm& comm) {
    std::vector<float> shards(kFew * kShards), sum(kFew);
    comm.sum_shards(shards.data(), kShards, sum.data(), kFew, DType::f32).wait();
    comm.barrier().wait();
  });
  for (const OpCounters& c : counters) {
    const std::uint64_t law = kShards * (world() - 1) * kFew * 4;  // small: every rank reads all shards
    EXPECT_EQ(c.bytes_sent, law);
    EXPECT_EQ(c.bytes_received, law);
    EXPECT_EQ(c.steps, world() == 1 ? 0u : 1u);
    EXPECT_EQ(c.messages, world() - 1);
  }
}

// Small buffers take one step, large ones, whether read in place or through chunks, two, however many chunks there are.
TEST_P(Laws, StepsAndMessagesFollowFromTheWayOfTheBuffer) {
  for (const std::int64_t count : {3, 500, 20'000, 400'000}) {
    const auto counters = count_of(count);
    const std::uint64_t phases = count * 8 <= 8192 ? 1 : 2;
    for (const OpCounters& c : counters) {
      EXPECT_EQ(c.steps, world() == 1 ? 0u : phases) << count;
      EXPECT_EQ(c.messages, phases * (world() - 1)) << count;
    }
  }
}

// A rank without a piece hands nothing over.
TEST_P(Laws, EmptyPiecesAreNoMessages) {
  const auto counters = count(CommOp::all_gather, [](Comm& comm) {
    std::vector<std::int64_t> counts(static_cast<std::size_t>(comm.size()), 4000);
    counts[0] = 0;
    std::vector<double> own(4000), all(4000 * counts.size());
    comm.all_gather(own.data(), all.data(), counts, DType::f64).wait();
    comm.barrier().wait();
  });
  for (std::size_t r = 0; r < counters.size(); ++r) {
    EXPECT_EQ(counters[r].messages, r == 0 ? 0 : world() - 1) << r;
    EXPECT_EQ(counters[r].steps, world() == 1 ? 0u : 1u) << r;
  }
}

TEST_P(Laws, MessagesAreCountedOnBothSides) {
  const auto body = [](Comm& comm) {
    if (comm.size() == 1) return;
    std::vector<float> data(50'000);  // through several chunks of shared memory
    for (int i = 0; i < 3; ++i) {
      if (comm.rank() == 0) comm.send(data.data(), 50'000, DType::f32, comm.size() - 1).wait();
      if (comm.rank() == comm.size() - 1) comm.recv(data.data(), 50'000, DType::f32, 0).wait();
    }
    comm.barrier().wait();
  };
  const std::uint64_t moved = world() == 1 ? 0 : 3 * 200'000;
  const auto sends = count(CommOp::send, body), receives = count(CommOp::recv, body);
  EXPECT_EQ(sends.front().bytes_sent, moved);
  EXPECT_EQ(receives.back().bytes_received, moved);
  EXPECT_EQ(sends.back().bytes_sent + receives.front().bytes_received, 0u);
  const std::uint64_t three = world() == 1 ? 0 : 3;
  EXPECT_EQ(sends.front().messages, three);
  EXPECT_EQ(sends.front().steps, three);
  EXPECT_EQ(receives.back().steps, three);
  EXPECT_EQ(receives.back().messages, 0u);
}

// Buffers in arenas are reduced in place, by owners of equal pieces, whichever process does so.
TEST(ArenaLaws, AllReduceSendsTwicePMinusOneOverPOfTheBuffer) {
  for (const std::uint64_t world : {2, 3, 8}) {
    const Comms comms = shared_comms(static_cast<int>(world));
    run_ranks(comms, [](Comm& comm) {
      const ArenaBuffer data(comm.arena(), kCount * 4);
      std::fill_n(data.as<float>(), kCount, 1.0f);
      for (int i = 0; i < 3; ++i)
        comm.all_reduce(data.as<float>(), data.as<float>(), kCount, DType::f32, ReduceOp::sum).wait();
      comm.barrier().wait();
    });
    for (const auto& comm : comms) {
      const OpCounters c = comm->journal().counters(CommOp::all_reduce);
      EXPECT_EQ(c.bytes_sent, 3 * 2 * (world - 1) * kCount * 4 / world) << world;
      EXPECT_EQ(c.bytes_received, c.bytes_sent) << world;
    }
  }
}

}  // namespace
}  // namespace starling::dist
