#include "starling/data/loading/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "starling/base/error.h"

namespace starling::data {
namespace {

std::vector<std::int64_t> order(std::int64_t size, std::uint64_t seed, std::int64_t epoch) {
  const EpochOrder order({.size = size, .seed = seed, .epoch = epoch});
  std::vector<std::int64_t> samples;
  for (std::int64_t i = 0; i < size; ++i) samples.push_back(order.sample_at(i));
  return samples;
}

TEST(EpochOrder, VisitsEverySampleOnce) {
  for (std::int64_t size : {1, 2, 3, 4, 5, 15, 16, 17, 63, 64, 65, 255, 1000, 4097, 60000}) {
    std::vector<int> seen(static_cast<std::size_t>(size));
    for (auto sample : order(size, 11, 3)) ++seen.at(static_cast<std::size_t>(sample));
    EXPECT_EQ(seen, std::vector<int>(static_cast<std::size_t>(size), 1)) << size;
  }
}

TEST(EpochOrder, IsAFunctionOfSeedAndEpoch) {
  EXPECT_EQ(order(1000, 1, 2), order(1000, 1, 2));
  EXPECT_NE(order(1000, 1, 2), order(1000, 1, 3));
  EXPECT_NE(order(1000, 1, 2), order(1000, 2, 2));
}

TEST(EpochOrder, StaysTheSameAcrossReleases) {
  // A resumed run must keep its sample order: these numbers may not change.
  const EpochOrder order({.size = 60000, .seed = 42, .epoch = 1});
  const std::vector<std::int64_t> first = {order.sample_at(0), order.sample_at(1), order.sample_at(59999)};
  EXPECT_EQ(first, (std::vector<std::int64_t>{10896, 21326, 35100}));
}

TEST(EpochOrder, KeepsTheOrderWhenNotShuffled) {
  const EpochOrder order({.size = 10, .seed = 1, .epoch = 1, .shuffle = false});
  for (std::int64_t i = 0; i < 10; ++i) EXPECT_EQ(order.sample_at(i), i);
}

// Every sample should be at every position equally often over many epochs, and so should pairs of neighbours.
TEST(EpochOrder, ShufflesEvenly) {
  constexpr int kSize = 10;
  constexpr int kEpochs = 20000;
  std::vector<int> at(kSize * kSize);
  std::vector<int> pairs(kSize * kSize);
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    const auto samples = order(kSize, 5, epoch);
    for (int i = 0; i < kSize; ++i) ++at[static_cast<std::size_t>(i * kSize + samples[static_cast<std::size_t>(i)])];
    ++pairs[static_cast<std::size_t>(samples[0] * kSize + samples[1])];
  }
  const double expected = kEpochs / static_cast<double>(kSize);
  double chi = 0;
  for (auto count : at) chi += (count - expected) * (count - expected) / expected;
  EXPECT_LT(chi, 150);  // 81 degrees of freedom: mean 81, standard deviation 13
  double pair_chi = 0;
  const double expected_pair = kEpochs / 90.0;
  for (int i = 0; i < kSize * kSize; ++i) {
    const double count = pairs[static_cast<std::size_t>(i)];
    if (i / kSize == i % kSize) {
      EXPECT_EQ(count, 0);
    } else {
      pair_chi += (count - expected_pair) * (count - expected_pair) / expected_pair;
    }
  }
  EXPECT_LT(pair_chi, 160);  // 89 degrees of freedom
}

TEST(EpochOrder, LeavesNoRunsOfNeighbours) {
  const auto samples = order(60000, 9, 0);
  int neighbours = 0;
  double correlation = 0;
  for (std::size_t i = 0; i + 1 < samples.size(); ++i) {
    neighbours += std::abs(samples[i] - samples[i + 1]) == 1 ? 1 : 0;
    correlation += (static_cast<double>(i) / 60000 - 0.5) * (static_cast<double>(samples[i]) / 60000 - 0.5);
  }
  EXPECT_LT(neighbours, 20);  // 2 expected
  EXPECT_LT(std::abs(correlation / 60000 * 12), 0.02);
}

TEST(EpochOrder, RefusesPositionsOutside) {
  const EpochOrder order({.size = 10});
  EXPECT_THROW(order.sample_at(10), Error);
  EXPECT_THROW(order.sample_at(-1), Error);
  EXPECT_THROW(EpochOrder({.size = 0}), Error);
}

TEST(EpochOrder, TakesHugeSets) {
  const std::int64_t size = std::int64_t{1} << 61;
  const EpochOrder order({.size = size, .seed = 1});
  EXPECT_LT(order.sample_at(size - 1), size);
  EXPECT_NE(order.sample_at(0), order.sample_at(1));
}

}  // namespace
}  // namespace starling::data
