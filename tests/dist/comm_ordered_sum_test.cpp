#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "dist/comm_worlds.h"
#include "starling/base/half.h"
#include "starling/dist/comm/ordered_sum.h"
#include "starling/dist/comm/reduce.h"

namespace starling::dist {
namespace {

constexpr int kShards = 12;
constexpr std::int64_t kCount = 70'003;

// Hides the native sum_shards, so that the fallback by gathers runs.
class WithoutSumShards final : public Comm {
 public:
  explicit WithoutSumShards(std::unique_ptr<Comm> inner) : Comm(inner.get()), inner_(std::move(inner)) {}
  CommCapabilities capabilities() const override { return {.backend = "plain"}; }
  void abort(std::string_view reason) override { inner_->abort(reason); }

 protected:
  Ticket start(const Call& call) override { return Comm::start(*inner_, call); }
  bool poll(const Ticket& ticket) override { return Comm::poll(*inner_, ticket); }
  bool await(const Ticket& ticket, CommTime deadline) override { return Comm::await(*inner_, ticket, deadline); }
  void expire(const Ticket& ticket) override { Comm::expire(*inner_, ticket); }
  std::unique_ptr<Comm> make_part(const Call& call) override { return Comm::make_part(*inner_, call); }

 private:
  std::unique_ptr<Comm> inner_;
};

template <class T>
T shard_value(int shard, std::int64_t i) {
  return rounded<T>(static_cast<float>((i * 31 + shard * 7907) % 997 - 498) * 0.0137f *
                    (shard % 5 == 0 ? 100.0f : 1.0f));
}

// Shards [first, last) of twelve, and the ordered_sum of all of them.
template <class T>
std::vector<T> shards_between(int first, int last) {
  std::vector<T> data;
  for (int s = first; s < last; ++s) {
    for (std::int64_t i = 0; i < kCount; ++i) data.push_back(shard_value<T>(s, i));
  }
  return data;
}

template <class T>
std::vector<std::vector<T>> sums(const Comms& comms, const std::vector<int>& cuts, DType dtype, SumOrder order) {
  std::vector<std::vector<T>> results(comms.size(), std::vector<T>(kCount));
  run_ranks(comms, [&](Comm& comm) {
    const auto r = static_cast<std::size_t>(comm.rank());
    const auto own = shards_between<T>(cuts[r], cuts[r + 1]);
    ordered_sum(comm, own.data(), cuts[r + 1] - cuts[r], results[r].data(), kCount, dtype, order);
  });
  return results;
}

std::vector<int> even_cuts(int world) {
  std::vector<int> cuts;
  for (int r = 0; r <= world; ++r) cuts.push_back(kShards * r / world);
  return cuts;
}

template <class T>
bool same(const std::vector<T>& a, const std::vector<T>& b) {
  return std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

Comms make_plain(int world) {
  return wrap(make_thread_comms(world),
              [](auto inner) { return std::make_unique<WithoutSumShards>(std::move(inner)); });
}

template <class T>
std::vector<T> serial_sum() {
  std::vector<T> sum(kCount);
  for (std::int64_t i = 0; i < kCount; ++i) {
    float acc = static_cast<float>(shard_value<T>(0, i));
    for (int s = 1; s < kShards; ++s) acc += static_cast<float>(shard_value<T>(s, i));
    sum[static_cast<std::size_t>(i)] = rounded<T>(acc);
  }
  return sum;
}

TEST(OrderedSum, HasTheSameBitsForAnyNumberOfRanks) {
  const auto expected = serial_sum<float>();
  for (int world : {1, 2, 3, 4}) {
    for (const auto& sum : sums<float>(make_thread_comms(world), even_cuts(world), DType::f32, SumOrder::by_shard)) {
      EXPECT_TRUE(same(sum, expected)) << world << " ranks, direct";
    }
    for (const auto& sum : sums<float>(make_plain(world), even_cuts(world), DType::f32, SumOrder::by_shard)) {
      EXPECT_TRUE(same(sum, expected)) << world << " ranks, gathered";
    }
  }
}

TEST(OrderedSum, AddingPerRankFirstChangesTheBitsWithTheNumberOfRanks) {
  const auto expected = serial_sum<float>();
  for (int world : {2, 3, 4}) {
    const auto results = sums<float>(make_thread_comms(world), even_cuts(world), DType::f32, SumOrder::by_rank_tree);
    EXPECT_FALSE(same(results[0], expected)) << world << " ranks";
    EXPECT_TRUE(same(results[0], results.back())) << "ranks still agree with each other";
  }
}

TEST(OrderedSum, RanksMayHoldDifferentNumbersOfShardsOrNone) {
  const std::vector<int> cuts{0, 5, 5, 6, 12};
  for (const auto& comms :
       {make_thread_comms, +[](int world, const ThreadWorldOptions&) { return make_plain(world); }}) {
    for (const auto& sum : sums<BFloat16>(comms(4, {}), cuts, DType::bf16, SumOrder::by_shard)) {
      EXPECT_TRUE(same(sum, serial_sum<BFloat16>()));
    }
  }
}

// Four ranks with three shards each: a rank sends its shards' columns to their owners and its own sum to the others.
TEST(OrderedSum, MovesShardsOnceAndTheSumOnceOverABackendWithoutOne) {
  const Comms comms = make_plain(4);
  (void)sums<float>(comms, even_cuts(4), DType::f32, SumOrder::by_shard);
  std::uint64_t bytes = 0;
  for (const auto& comm : comms) bytes += comm->journal().total().bytes_sent;
  const double per_rank = static_cast<double>(bytes) / 4;
  EXPECT_NEAR(per_rank, (3 + 1) * 0.75 * kCount * 4, 0.001 * per_rank);
  EXPECT_LT(per_rank, 0.5 * 3 * 3 * kCount * 4) << "what gathering all shards everywhere would take";
}

TEST(OrderedSum, TheFirstShardMayBeTheResult) {
  for (auto make : {+[] { return make_thread_comms(2); }, +[] { return make_plain(2); }}) {
    run_ranks(make(), [](Comm& comm) {
      auto own = shards_between<float>(comm.rank() * 6, comm.rank() * 6 + 6);
      ordered_sum(comm, own.data(), 6, own.data(), kCount, DType::f32);
      own.resize(kCount);
      EXPECT_TRUE(same(own, serial_sum<float>()));
    });
  }
}

TEST(ReduceBlock, NanWinsAndIntegersWrap) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float a[] = {nan, 1.0f, 3.0f}, b[] = {1.0f, nan, 2.0f};
  const void* floats[] = {a, b};
  float out[3];
  for (ReduceOp reduce : {ReduceOp::max, ReduceOp::min}) {
    reduce_block(DType::f32, reduce, floats, 0, 3, out);
    EXPECT_TRUE(std::isnan(out[0]) && std::isnan(out[1]));
    EXPECT_EQ(out[2], reduce == ReduceOp::max ? 3.0f : 2.0f);
  }
  const std::int32_t big[] = {std::numeric_limits<std::int32_t>::max()}, one[] = {1};
  const void* integers[] = {big, one};
  std::int32_t sum = 0;
  reduce_block(DType::i32, ReduceOp::sum, integers, 0, 1, &sum);
  EXPECT_EQ(sum, std::numeric_limits<std::int32_t>::min());
}

TEST(ReduceBlock, TheResultMayTakeThePlaceOfTheFirstSource) {
  constexpr std::int64_t kLength = 1003, kOffset = 5;
  for (int sources : {1, 2, 3, 5}) {
    std::vector<std::vector<float>> values(static_cast<std::size_t>(sources));
    std::vector<const void*> pointers;
    for (std::size_t s = 0; s < values.size(); ++s) {
      for (std::int64_t i = 0; i < kLength + kOffset; ++i) {
        values[s].push_back(static_cast<float>((i * 7919 + static_cast<std::int64_t>(s) * 104729) % 1009) / 301.7f);
      }
      pointers.push_back(values[s].data());
    }
    std::vector<float> apart(kLength);
    reduce_block(DType::f32, ReduceOp::mean, pointers, kOffset, kLength, apart.data());
    reduce_block(DType::f32, ReduceOp::mean, pointers, kOffset, kLength, values[0].data() + kOffset);
    values[0].erase(values[0].begin(), values[0].begin() + kOffset);
    EXPECT_TRUE(same(values[0], apart)) << sources << " sources";
  }
}

}  // namespace
}  // namespace starling::dist
