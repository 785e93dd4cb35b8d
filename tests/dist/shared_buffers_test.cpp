// Buffers in arenas, outside, or mixed over the ranks: the same bits as between threads.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <thread>

#include "dist/shared_worlds.h"

namespace starling::dist {
namespace {

// A buffer in the rank's arena, if it has one and is told so, else in plain memory.
class Buffer {
 public:
  Buffer(Comm& comm, bool shared, std::int64_t count) : plain_(static_cast<std::size_t>(count)) {
    if (shared && comm.arena() && count > 0) {
      in_arena_ = std::make_unique<ArenaBuffer>(comm.arena(), plain_.size() * sizeof(float));
    }
  }
  float* data() { return in_arena_ ? in_arena_->as<float>() : plain_.data(); }
  std::vector<float> values() { return {data(), data() + plain_.size()}; }
  void fill(int rank) {
    for (std::size_t i = 0; i < plain_.size(); ++i) {
      data()[i] = static_cast<float>((i * 7919 + static_cast<std::size_t>(rank) * 104729 + 17) % 1009) / 301.7f;
    }
  }

 private:
  std::vector<float> plain_;
  std::unique_ptr<ArenaBuffer> in_arena_;
};

enum class Located { arena, outside, sends_outside, receives_outside, odd_ranks_outside };

bool shares(Located located, int rank, bool sends) {
  switch (located) {
    case Located::arena: return true;
    case Located::outside: return false;
    case Located::sends_outside: return !sends;
    case Located::receives_outside: return sends;
    case Located::odd_ranks_outside: return rank % 2 == 0;
  }
  return false;
}

using Results = std::vector<std::vector<float>>;  // of one rank, one result per operation

// Runs every operation once, in place and not, on n elements per piece.
Results all_operations(Comm& comm, Located located, std::int64_t n) {
  const int world = comm.size(), rank = comm.rank(), root = world - 1;
  const auto all = n * world;
  Results results;
  const auto buffer = [&](bool sends, std::int64_t count) {
    auto made = std::make_unique<Buffer>(comm, shares(located, rank, sends), count);
    made->fill(sends ? rank : 99);
    return made;
  };
  const auto keep = [&](Buffer& b) { results.push_back(b.values()); };
  {
    auto send = buffer(true, n), recv = buffer(false, n);
    comm.all_reduce(send->data(), recv->data(), n, DType::f32, ReduceOp::sum).wait();
    keep(*recv);
    comm.all_reduce(send->data(), send->data(), n, DType::f32, ReduceOp::mean).wait();
    keep(*send);
    comm.broadcast(send->data(), n, DType::f32, root).wait();
    keep(*send);
  }
  {
    auto send = buffer(true, all), recv = buffer(false, n);
    comm.reduce_scatter(send->data(), recv->data(), n, DType::f32, ReduceOp::sum).wait();
    keep(*recv);
    comm.reduce_scatter(send->data(), send->data() + rank * n, n, DType::f32, ReduceOp::sum).wait();
    results.emplace_back(send->data() + rank * n, send->data() + (rank + 1) * n);
  }
  {
    auto send = buffer(true, n), recv = buffer(false, all);
    comm.all_gather(send->data(), recv->data(), n, DType::f32).wait();
    keep(*recv);
    send->fill(rank + 50);
    if (n > 0) std::memcpy(recv->data() + rank * n, send->data(), static_cast<std::size_t>(n) * sizeof(float));
    comm.all_gather(recv->data() + rank * n, recv->data(), n, DType::f32).wait();
    keep(*recv);
    comm.gather(send->data(), recv->data(), n, DType::f32, root).wait();
    if (rank == root) keep(*recv);
  }
  {
    auto send = buffer(true, all), recv = buffer(false, all), piece = buffer(false, n);
    comm.all_to_all(send->data(), recv->data(), n, DType::f32).wait();
    keep(*recv);
    comm.scatter(send->data(), piece->data(), n, DType::f32, root).wait();
    keep(*piece);
  }
  {
    std::vector<std::int64_t> counts;
    for (int r = 0; r < world; ++r) counts.push_back(r % 3 == 1 ? 0 : n + 100 * r);
    const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    const std::int64_t own = counts[static_cast<std::size_t>(rank)];
    auto send = buffer(true, total), piece = buffer(false, own), whole = buffer(false, total);
    comm.reduce_scatter(send->data(), piece->data(), counts, DType::f32, ReduceOp::sum).wait();
    keep(*piece);
    comm.all_gather(piece->data(), whole->data(), counts, DType::f32).wait();
    keep(*whole);
  }
  {
    const std::int64_t shards = rank % 3;  // also none
    auto send = buffer(true, n * std::max<std::int64_t>(shards, 1)), recv = buffer(false, n);
    comm.sum_shards(send->data(), shards, recv->data(), n, DType::f32).wait();
    keep(*recv);
    comm.sum_shards(send->data(), shards, send->data(), n, DType::f32).wait();
    results.emplace_back(send->data(), send->data() + n);
  }
  if (world > 1) {
    auto send = buffer(true, n), recv = buffer(false, n);
    const Work sent = comm.send(send->data(), n, DType::f32, (rank + 1) % world);
    comm.recv(recv->data(), n, DType::f32, (rank + world - 1) % world).wait();
    sent.wait();
    keep(*recv);
  }
  return results;
}

std::vector<Results> on_all_ranks(const Comms& comms, Located located, std::int64_t n) {
  std::vector<Results> results(comms.size());
  run_ranks(comms,
            [&](Comm& comm) { results[static_cast<std::size_t>(comm.rank())] = all_operations(comm, located, n); });
  return results;
}

class BufferLocations : public ::testing::TestWithParam<std::tuple<int, Located>> {};
INSTANTIATE_TEST_SUITE_P(Worlds, BufferLocations,
                         ::testing::Combine(::testing::Values(1, 2, 3, 5),
                                            ::testing::Values(Located::arena, Located::outside, Located::sends_outside,
                                                              Located::receives_outside, Located::odd_ranks_outside)));

// Sizes that fit into a cache line, a slot, a chunk, and none of them.
TEST_P(BufferLocations, DoNotChangeABit) {
  const auto& [world, located] = GetParam();
  const Comms shared = shared_comms(world);
  for (const std::int64_t n : {0, 1, 9, 11, 700, 5000, world < 3 ? 300'000 : 30'001}) {
    const auto expected = on_all_ranks(make_thread_comms(world), Located::outside, n);
    const auto found = on_all_ranks(shared, located, n);
    for (std::size_t r = 0; r < expected.size(); ++r) {
      ASSERT_EQ(found[r].size(), expected[r].size());
      for (std::size_t i = 0; i < expected[r].size(); ++i) {
        EXPECT_EQ(found[r][i] == expected[r][i], true) << "operation " << i << " on rank " << r << ", n " << n;
      }
    }
  }
}

TEST(Arena, ReductionsInItProceedWhileARankComputes) {
  std::atomic<bool> seen{false};
  run_ranks(shared_comms(2), [&](Comm& comm) {
    constexpr std::int64_t kCount = 500'000;
    const ArenaBuffer buffer(comm.arena(), kCount * sizeof(float));
    std::fill_n(buffer.as<float>(), kCount, 1.5f);
    const Work work = comm.all_reduce(buffer.as<float>(), buffer.as<float>(), kCount, DType::f32, ReduceOp::sum);
    if (comm.rank() == 0) {
      while (!seen) std::this_thread::yield();  // does not poll
    } else {
      work.wait();
      seen = true;
    }
    work.wait();
    EXPECT_EQ(buffer.as<float>()[kCount - 1], 3.0f);
  });
}

TEST(Arena, GivesMemoryBackAndJoinsIt) {
  const Comms comms = shared_comms(1, 16 << 20);
  const auto arena = comms[0]->arena();
  for (int round = 0; round < 3; ++round) {
    std::vector<void*> blocks;
    for (int i = 0; i < 10; ++i) blocks.push_back(arena->allocate(1 << 20));
    std::memset(blocks[7], 1, 1 << 20);
    for (int i : {3, 1, 0, 2, 9, 8, 7, 4, 5, 6}) arena->deallocate(blocks[static_cast<std::size_t>(i)], 1 << 20);
    void* large = arena->allocate(15 << 20);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(large) % 64, 0u);
    arena->deallocate(large, 15 << 20);
    EXPECT_EQ(arena->stats().live_bytes, 0);
    arena->release_cached();
  }
  EXPECT_GE(arena->stats().peak_bytes, 15 << 20);
  try {
    (void)arena->allocate(std::size_t{1} << 40);
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_TRUE(contains(error.what(), "give the world more arena_bytes"));
  }
}

TEST(Arena, OutlivesItsCommunicator) {
  Comms comms = shared_comms(1);
  const ArenaBuffer buffer(comms[0]->arena(), 4096);
  comms.clear();
  buffer.as<int>()[1023] = 7;
  EXPECT_EQ(buffer.as<int>()[1023], 7);
}

TEST(Arena, PassesThroughDecorators) {
  const Comms comms = wrap(shared_comms(2), make_checking);
  EXPECT_NE(comms[0]->arena(), nullptr);
  EXPECT_EQ(make_thread_comms(1)[0]->arena(), nullptr);
}

TEST(Shared, PartsComeAndGoWithoutTakingMemoryForGood) {
  run_ranks(shared_comms(3, 8 << 20), [](Comm& comm) {
    for (int round = 0; round < 50; ++round) {
      const auto part = comm.split(comm.rank() % 2, 0);
      std::int64_t one = 1;
      part->all_reduce(&one, &one, 1, DType::i64, ReduceOp::sum).wait();
      EXPECT_EQ(one, part->size());
    }
  });
}

// Finished operations are announced by a rank's next call, or once it waits for anything: here for a message that its
// sender sends only after a call that needs the room.
TEST(Shared, AWaitingRankFreesSlotsWithoutFurtherCalls) {
  constexpr int kOutstanding = 64;
  run_ranks(shared_comms(2), [](Comm& comm) {
    float first = 1, word = 0;
    comm.all_reduce(&first, &first, 1, DType::f32, ReduceOp::sum).wait();
    if (comm.rank() == 1) comm.recv(&word, 1, DType::f32, 0, {.deadline = std::chrono::seconds(20)}).wait();
    std::vector<float> data(kOutstanding, 1.0f);
    std::vector<Work> works;
    for (float& x : data) works.push_back(comm.all_reduce(&x, &x, 1, DType::f32, ReduceOp::sum));
    if (comm.rank() == 0) comm.send(&word, 1, DType::f32, 1).wait();
    for (const Work& work : works) work.wait();
    EXPECT_EQ(data, std::vector<float>(kOutstanding, 2.0f));
  });
}

// A rank that waits in one group keeps its operations in all others moving.
TEST(Shared, GroupsDoNotHoldEachOtherUp) {
  run_ranks(shared_comms(2), [](Comm& comm) {
    const auto part = comm.split(0, comm.rank());
    std::vector<float> data(1'000'000, 1.0f);
    const auto n = static_cast<std::int64_t>(data.size());
    const Work large = comm.all_reduce(data.data(), data.data(), n, DType::f32, ReduceOp::sum);
    if (comm.rank() == 0) part->barrier().wait();
    large.wait();
    if (comm.rank() == 1) part->barrier().wait();
    EXPECT_EQ(data.back(), 2.0f);
  });
}

}  // namespace
}  // namespace starling::dist
