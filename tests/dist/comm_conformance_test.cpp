// What every backend of Comm must do, against a serial oracle written with plain loops.
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>
#include <tuple>
#include <type_traits>

#include "dist/comm_worlds.h"
#include "starling/dist/comm/ordered_sum.h"
#include "starling/tensor/dispatch.h"

namespace starling {
namespace {

constexpr DType kDTypes[] = {DType::f64, DType::f32, DType::f16, DType::bf16,
                             DType::i64, DType::i32, DType::u8,  DType::boolean};
constexpr CommReduce kReductions[] = {CommReduce::sum, CommReduce::mean, CommReduce::max, CommReduce::min,
                                      CommReduce::product};

// Values whose sums round, so that another order of adding shows.
template <class T>
T value_at(int rank, std::int64_t i) {
  const std::int64_t mixed = (i * 7919 + rank * 104729 + 17) % 1009;
  if constexpr (std::is_same_v<T, bool>) {
    return mixed % 3 == 0;
  } else if constexpr (std::is_integral_v<T>) {
    return static_cast<T>(mixed - (std::is_signed_v<T> ? 500 : 0));
  } else {
    return rounded<T>(static_cast<float>(mixed - 450) / 301.7f);
  }
}

template <class T>
std::vector<T> input(int rank, std::int64_t count) {
  std::vector<T> data(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) data[static_cast<std::size_t>(i)] = value_at<T>(rank, i);
  return data;
}

template <class T>
T combine(CommReduce reduce, const std::vector<T>& values) {
  using Wide = std::conditional_t<std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>, float, T>;
  Wide acc = static_cast<Wide>(values[0]);
  for (std::size_t r = 1; r < values.size(); ++r) {
    const Wide v = static_cast<Wide>(values[r]);
    if constexpr (std::is_integral_v<Wide>) {
      const auto a = static_cast<std::uint64_t>(acc), b = static_cast<std::uint64_t>(v);
      if (reduce == CommReduce::sum) acc = static_cast<Wide>(a + b);
      if (reduce == CommReduce::product) acc = static_cast<Wide>(a * b);
    } else {
      if (reduce == CommReduce::sum || reduce == CommReduce::mean) acc += v;
      if (reduce == CommReduce::product) acc *= v;
    }
    if (reduce == CommReduce::max) acc = std::max(acc, v);
    if (reduce == CommReduce::min) acc = std::min(acc, v);
  }
  if constexpr (!std::is_integral_v<Wide>) {
    if (reduce == CommReduce::mean) acc /= static_cast<Wide>(values.size());
  }
  if constexpr (sizeof(T) == 2 && !std::is_integral_v<T>) {
    return T::from_float(acc);
  } else {
    return static_cast<T>(acc);
  }
}

template <class T>
std::vector<T> reduced(CommReduce reduce, int world, std::int64_t count) {
  std::vector<T> result(static_cast<std::size_t>(count)), values(static_cast<std::size_t>(world));
  for (std::int64_t i = 0; i < count; ++i) {
    for (int r = 0; r < world; ++r) values[static_cast<std::size_t>(r)] = value_at<T>(r, i);
    result[static_cast<std::size_t>(i)] = combine<T>(reduce, values);
  }
  return result;
}

// vector<bool> has no data(): buffers of booleans are bytes.
template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, std::uint8_t, T>;

template <class T>
std::vector<Stored<T>> stored(const std::vector<T>& v) {
  return {v.begin(), v.end()};
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

bool allowed(DType dtype, CommReduce reduce) {
  if (dtype == DType::boolean) return reduce == CommReduce::max || reduce == CommReduce::min;
  return is_float(dtype) || reduce != CommReduce::mean;
}

template <class F>
void for_dtypes(F f) {
  for (DType dtype : kDTypes) dispatch(dtype, [&]<class T>() { f.template operator()<T>(dtype); });
}

std::vector<std::int64_t> counts_for(int world) {
  std::vector<std::int64_t> counts{0, 1, world - 1, world, 1000};
  if (world == 3) counts.push_back(70'001);
  return counts;
}

class Conformance : public ::testing::TestWithParam<std::tuple<Backend, int>> {
 protected:
  Comms make() const { return std::get<0>(GetParam()).make(world()); }
  static int world() { return std::get<1>(GetParam()); }
};

TEST_P(Conformance, AllReduceEqualsTheSerialReductionInBitsOnEveryRank) {
  run_ranks(make(), [&](Comm& comm) {
    for_dtypes([&]<class T>(DType dtype) {
      for (std::int64_t count : counts_for(world())) {
        for (CommReduce reduce : kReductions) {
          if (!allowed(dtype, reduce)) continue;
          auto data = stored(input<T>(comm.rank(), count));
          std::vector<Stored<T>> result(data.size());
          const auto expected = stored(reduced<T>(reduce, world(), count));
          comm.all_reduce(data.data(), result.data(), count, dtype, reduce).wait();
          EXPECT_TRUE(same_bits(result, expected)) << name(dtype) << " " << name(reduce) << " x " << count;
          comm.all_reduce(data.data(), data.data(), count, dtype, reduce).wait();
          EXPECT_TRUE(same_bits(data, expected))
              << "in place, " << name(dtype) << " " << name(reduce) << " x " << count;
        }
      }
    });
  });
}

TEST_P(Conformance, ReduceScatterGivesEachRankItsPiece) {
  run_ranks(make(), [&](Comm& comm) {
    for_dtypes([&]<class T>(DType dtype) {
      const CommReduce reduce = dtype == DType::boolean ? CommReduce::max : CommReduce::sum;
      for (std::int64_t count : counts_for(world())) {
        auto data = stored(input<T>(comm.rank(), count * world()));
        const auto whole = stored(reduced<T>(reduce, world(), count * world()));
        const std::vector<Stored<T>> expected(whole.begin() + comm.rank() * count,
                                              whole.begin() + (comm.rank() + 1) * count);
        std::vector<Stored<T>> result(static_cast<std::size_t>(count));
        comm.reduce_scatter(data.data(), result.data(), count, dtype, reduce).wait();
        EXPECT_TRUE(same_bits(result, expected)) << name(dtype) << " x " << count;
        auto* piece = data.data() + comm.rank() * count;
        comm.reduce_scatter(data.data(), piece, count, dtype, reduce).wait();
        EXPECT_TRUE(same_bits({piece, piece + count}, expected)) << "in place, " << name(dtype) << " x " << count;
      }
    });
  });
}

std::vector<std::int64_t> uneven(int world) {
  std::vector<std::int64_t> counts;
  for (int r = 0; r < world; ++r) counts.push_back(r % 3 == 1 ? 0 : 5 + 300 * r);
  return counts;
}

TEST_P(Conformance, UnevenPiecesAreScatteredAndGathered) {
  run_ranks(make(), [&](Comm& comm) {
    const auto counts = uneven(world());
    const auto offset = std::accumulate(counts.begin(), counts.begin() + comm.rank(), std::int64_t{0});
    const auto total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    const auto own = counts[static_cast<std::size_t>(comm.rank())];
    const auto data = input<double>(comm.rank(), total);
    const auto whole = reduced<double>(CommReduce::mean, world(), total);
    std::vector<double> piece(static_cast<std::size_t>(own)), gathered(static_cast<std::size_t>(total));
    comm.reduce_scatter(data.data(), piece.data(), counts, DType::f64, CommReduce::mean).wait();
    EXPECT_TRUE(same_bits(piece, {whole.begin() + offset, whole.begin() + offset + own}));
    comm.all_gather(piece.data(), gathered.data(), counts, DType::f64).wait();
    EXPECT_TRUE(same_bits(gathered, whole));
  });
}

TEST_P(Conformance, AllGatherPutsPiecesInRankOrder) {
  run_ranks(make(), [&](Comm& comm) {
    for_dtypes([&]<class T>(DType dtype) {
      for (std::int64_t count : counts_for(world())) {
        std::vector<Stored<T>> expected;
        for (int r = 0; r < world(); ++r) {
          const auto piece = stored(input<T>(r, count));
          expected.insert(expected.end(), piece.begin(), piece.end());
        }
        const auto own = stored(input<T>(comm.rank(), count));
        std::vector<Stored<T>> result(expected.size());
        comm.all_gather(own.data(), result.data(), count, dtype).wait();
        EXPECT_TRUE(same_bits(result, expected)) << name(dtype) << " x " << count;
        std::fill(result.begin(), result.end(), Stored<T>{});
        std::copy(own.begin(), own.end(), result.begin() + comm.rank() * count);
        comm.all_gather(result.data() + comm.rank() * count, result.data(), count, dtype).wait();
        EXPECT_TRUE(same_bits(result, expected)) << "in place, " << name(dtype) << " x " << count;
      }
    });
  });
}

TEST_P(Conformance, AllToAllTransposesPieces) {
  run_ranks(make(), [&](Comm& comm) {
    for (std::int64_t count : counts_for(world())) {
      const auto data = input<std::int32_t>(comm.rank(), count * world());
      std::vector<std::int32_t> result(data.size()), expected;
      for (int r = 0; r < world(); ++r) {
        for (std::int64_t i = 0; i < count; ++i) expected.push_back(value_at<std::int32_t>(r, comm.rank() * count + i));
      }
      comm.all_to_all(data.data(), result.data(), count, DType::i32).wait();
      EXPECT_EQ(result, expected) << count;
    }
  });
}

TEST_P(Conformance, BroadcastReachesAllRanksFromEveryRoot) {
  run_ranks(make(), [&](Comm& comm) {
    for_dtypes([&]<class T>(DType dtype) {
      for (int root = 0; root < world(); ++root) {
        for (std::int64_t count : counts_for(world())) {
          auto data = stored(input<T>(comm.rank(), count));
          comm.broadcast(data.data(), count, dtype, root).wait();
          EXPECT_TRUE(same_bits(data, stored(input<T>(root, count))))
              << name(dtype) << " x " << count << " from " << root;
        }
      }
    });
  });
}

class PairConformance : public Conformance {};

TEST_P(PairConformance, RanksThatAllSendBeforeTheyReceiveDoNotBlock) {
  run_ranks(make(), [&](Comm& comm) {
    const int next = (comm.rank() + 1) % world(), previous = (comm.rank() + world() - 1) % world();
    for (std::int64_t count : {std::int64_t{0}, std::int64_t{1}, std::int64_t{50'000}}) {
      const auto first = input<float>(comm.rank(), count), second = input<float>(comm.rank() + 100, count);
      std::vector<float> a(first.size()), b(first.size());
      const Work sends[] = {comm.send(first.data(), count, DType::f32, next),
                            comm.send(second.data(), count, DType::f32, next)};
      const Work receives[] = {comm.recv(a.data(), count, DType::f32, previous),
                               comm.recv(b.data(), count, DType::f32, previous)};
      receives[1].wait();
      receives[0].wait();
      for (const Work& send : sends) send.wait();
      EXPECT_TRUE(same_bits(a, input<float>(previous, count)));
      EXPECT_TRUE(same_bits(b, input<float>(previous + 100, count)));
    }
  });
}

TEST_P(PairConformance, APostedReceiveDoesNotHoldUpItsSender) {
  run_ranks(make(), [&](Comm& comm) {
    std::int64_t word = comm.rank() == 0 ? 42 : 0;
    Work receive;
    if (comm.rank() == 1) receive = comm.recv(&word, 1, DType::i64, 0);
    if (comm.rank() == 0) comm.send(&word, 1, DType::i64, 1).wait();
    comm.barrier().wait();
    receive.wait();
    EXPECT_EQ(word, comm.rank() < 2 ? 42 : 0);
  });
}

TEST_P(Conformance, ManyOperationsMayBeOutstandingAndAreWaitedForInAnyOrder) {
  run_ranks(make(), [&](Comm& comm) {
    constexpr int kOperations = 150;
    std::vector<std::int64_t> values(kOperations, comm.rank() + 1);
    std::vector<Work> works;
    for (auto& value : values) works.push_back(comm.all_reduce(&value, &value, 1, DType::i64, CommReduce::sum));
    for (auto work = works.rbegin(); work != works.rend(); ++work) work->wait();
    EXPECT_EQ(values, std::vector<std::int64_t>(kOperations, world() * (world() + 1) / 2));
  });
}

TEST_P(Conformance, ARankThatOnlyPollsSeesTheEnd) {
  run_ranks(make(), [&](Comm& comm) {
    auto data = input<float>(comm.rank(), 40'000);
    const Work work = comm.all_reduce(data.data(), data.data(), 40'000, DType::f32, CommReduce::sum);
    while (!work.done()) std::this_thread::yield();
    EXPECT_TRUE(same_bits(data, reduced<float>(CommReduce::sum, world(), 40'000)));
  });
}

TEST_P(Conformance, BarrierHoldsEveryoneUntilTheLastArrives) {
  std::atomic<int> arrived{0};
  run_ranks(make(), [&](Comm& comm) {
    for (int round = 1; round <= 20; ++round) {
      ++arrived;
      comm.barrier().wait();
      EXPECT_GE(arrived.load(), round * world());
    }
  });
}

TEST_P(Conformance, SplitMakesGroupsOrderedByKey) {
  run_ranks(make(), [&](Comm& comm) {
    const int color = comm.rank() % 2, key = -comm.rank();
    auto part = comm.split(color, key);
    ASSERT_NE(part, nullptr);
    EXPECT_EQ(part->size(), (world() + 1 - color) / 2);
    EXPECT_EQ(part->rank(), (world() - 1 - comm.rank()) / 2);
    std::vector<std::int64_t> ranks(static_cast<std::size_t>(part->size())), expected;
    const std::int64_t own = comm.rank();
    part->all_gather(&own, ranks.data(), 1, DType::i64).wait();
    for (int r = world() - 1; r >= 0; --r) {
      if (r % 2 == color) expected.push_back(r);
    }
    EXPECT_EQ(ranks, expected);
    EXPECT_EQ(comm.split(comm.rank() == 0 ? -1 : 0, 0) == nullptr, comm.rank() == 0);
  });
}

TEST_P(Conformance, RefusesPartialOverlapsAndWhatHasNoMeaning) {
  run_ranks(make(), [&](Comm& comm) {
    std::vector<float> data(100);
    float* p = data.data();
    std::vector<std::int64_t> words(10);
    EXPECT_THROW((void)comm.all_reduce(p, p + 1, 10, DType::f32, CommReduce::sum), Error);
    EXPECT_THROW((void)comm.all_to_all(p, p, 4, DType::f32), Error);
    EXPECT_THROW((void)comm.all_gather(p + comm.rank() * 2 + 1, p, 2, DType::f32), Error);
    EXPECT_THROW((void)comm.reduce_scatter(p, p + comm.rank() * 2 + 1, 2, DType::f32, CommReduce::sum), Error);
    EXPECT_THROW((void)comm.all_reduce(words.data(), words.data(), 10, DType::i64, CommReduce::mean), Error);
    EXPECT_THROW((void)comm.all_reduce(p, p, 10, DType::boolean, CommReduce::sum), Error);
    EXPECT_THROW((void)comm.broadcast(p, 10, DType::f32, world()), Error);
    EXPECT_THROW((void)comm.send(p, 10, DType::f32, comm.rank()), Error);
    EXPECT_THROW((void)comm.all_reduce(p, p, -1, DType::f32, CommReduce::sum), Error);
    EXPECT_THROW((void)comm.all_gather(p, p + 50, std::vector<std::int64_t>(12, 1), DType::f32), Error);
    comm.barrier().wait();  // a refused call has not been made: the ranks are still in step
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, Conformance,
                         ::testing::Combine(::testing::Values(threads_backend(), checking_backend(), faulty_backend()),
                                            ::testing::Range(1, 10)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_P" + std::to_string(std::get<1>(info.param));
                         });

INSTANTIATE_TEST_SUITE_P(Backends, PairConformance,
                         ::testing::Combine(::testing::Values(threads_backend(), checking_backend(), faulty_backend()),
                                            ::testing::Range(2, 10)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_P" + std::to_string(std::get<1>(info.param));
                         });

class LargeConformance : public Conformance {};

TEST_P(LargeConformance, AllReducesAMillionElements) {
  constexpr std::int64_t kCount = 1'000'000;
  const auto expected = reduced<float>(CommReduce::mean, world(), kCount);
  const auto expected_half = reduced<BFloat16>(CommReduce::sum, world(), kCount);
  run_ranks(make(), [&](Comm& comm) {
    auto data = input<float>(comm.rank(), kCount);
    auto half = input<BFloat16>(comm.rank(), kCount);
    const Work first = comm.all_reduce(data.data(), data.data(), kCount, DType::f32, CommReduce::mean);
    comm.all_reduce(half.data(), half.data(), kCount, DType::bf16, CommReduce::sum).wait();
    first.wait();
    EXPECT_TRUE(same_bits(data, expected));
    EXPECT_TRUE(same_bits(half, expected_half));
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, LargeConformance,
                         ::testing::Combine(::testing::Values(threads_backend(), checking_backend()),
                                            ::testing::Values(1, 2, 3, 8)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_P" + std::to_string(std::get<1>(info.param));
                         });

}  // namespace
}  // namespace starling
