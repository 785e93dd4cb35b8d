#include "starling/train/monitor/histogram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "starling/base/parallel.h"
#include "testing/temporary_folder.h"

namespace starling::train {
namespace {

// Counts value by value, looking at every limit.
std::vector<std::int64_t> counted_one_by_one(const std::vector<double>& values) {
  const auto& limits = histogram_limits();
  std::vector<std::int64_t> counts(limits.size());
  for (const double value : values) {
    std::size_t i = 0;
    while (i + 1 < limits.size() && value >= limits[i]) ++i;
    ++counts[i];
  }
  return counts;
}

// The counts of a histogram put back on the full list of limits.
std::vector<std::int64_t> spread(const Histogram& h) {
  const auto& limits = histogram_limits();
  std::vector<std::int64_t> counts(limits.size());
  for (std::size_t i = 0; i < h.limits.size(); ++i) {
    const auto found = std::find(limits.begin(), limits.end(), h.limits[i]);
    EXPECT_NE(found, limits.end()) << h.limits[i];
    counts[static_cast<std::size_t>(found - limits.begin())] += h.counts[i];
  }
  return counts;
}

TEST(Histogram, LimitsGrowByATenthAndMirrorAroundZero) {
  const auto& limits = histogram_limits();
  EXPECT_TRUE(std::is_sorted(limits.begin(), limits.end()));
  EXPECT_EQ(limits.size() % 2, 0U);  // as many below zero as above it, zero, and the largest double
  EXPECT_DOUBLE_EQ(limits[limits.size() / 2] / limits[limits.size() / 2 - 1], std::numeric_limits<double>::infinity());
  EXPECT_EQ(limits[limits.size() / 2 - 1], 0);
  EXPECT_EQ(limits[limits.size() / 2], 1e-12);
  EXPECT_NEAR(limits[limits.size() / 2 + 1], 1.1e-12, 1e-20);
  EXPECT_EQ(limits.back(), std::numeric_limits<double>::max());
}

TEST(Histogram, CountsAsOneByOneDoes) {
  std::mt19937_64 random(3);
  std::uniform_real_distribution<double> exponent(-14, 22);
  std::vector<double> values = {0, -0.0, 1, -1, 1e-12, -1e-12, 1.1e-12, 1e-13, 1e300, -1e300, 1e20, -1e20};
  for (int i = 0; i < 4000; ++i) values.push_back((random() % 2 ? 1 : -1) * std::pow(10, exponent(random)));
  for (const double limit : histogram_limits()) {
    for (const double value : {limit, std::nextafter(limit, -INFINITY), std::nextafter(limit, INFINITY)}) {
      if (std::isfinite(value)) values.push_back(value);
    }
  }
  const Histogram h = histogram_of(from_host<double>(values, {static_cast<std::int64_t>(values.size())}));
  EXPECT_EQ(spread(h), counted_one_by_one(values));
  EXPECT_EQ(h.count, static_cast<std::int64_t>(values.size()));
  EXPECT_EQ(h.min, -1e300);
  EXPECT_EQ(h.max, std::numeric_limits<double>::max());
}

TEST(Histogram, CountsFloatsOnLimitsAsOneByOneDoes) {
  std::vector<float> values;
  std::vector<double> as_double;
  for (const double limit : histogram_limits()) {
    const auto near = static_cast<float>(limit);
    for (const float value : {near, std::nextafter(near, -INFINITY), std::nextafter(near, INFINITY)}) {
      if (!std::isfinite(value)) continue;
      values.push_back(value);
      as_double.push_back(value);
    }
  }
  const Histogram h = histogram_of(from_host<float>(values, {static_cast<std::int64_t>(values.size())}));
  EXPECT_EQ(spread(h), counted_one_by_one(as_double));
}

TEST(Histogram, KeepsSumsAndLeavesOutGaps) {
  const std::vector<float> values = {-2, 0.5, 0.5, 3};
  const Histogram h = histogram_of(from_host<float>(values, {2, 2}));
  EXPECT_EQ(h.min, -2);
  EXPECT_EQ(h.max, 3);
  EXPECT_EQ(h.sum, 2);
  EXPECT_EQ(h.sum_squares, 13.5);
  EXPECT_DOUBLE_EQ(h.norm(), std::sqrt(13.5));
  // Three filled buckets, each after an empty one that ends at its lower limit.
  ASSERT_EQ(h.counts, (std::vector<std::int64_t>{0, 1, 0, 2, 0, 1}));
  EXPECT_LE(h.limits[0], -2);
  EXPECT_GT(h.limits[1], -2);
  EXPECT_LE(h.limits[2], 0.5);
  EXPECT_GT(h.limits[3], 0.5);
}

TEST(Histogram, CountsWhatIsNotFiniteApart) {
  const std::vector<float> values = {NAN, INFINITY, -INFINITY, 1};
  const Histogram h = histogram_of(from_host<float>(values, {4}));
  EXPECT_EQ(h.not_finite, 3);
  EXPECT_EQ(h.count, 1);
  EXPECT_EQ(h.max, 1);
  const Histogram none = histogram_of(from_host<float>(std::vector<float>{NAN}, {1}));
  EXPECT_EQ(none.count, 0);
  EXPECT_TRUE(none.limits.empty());
  EXPECT_EQ(none.min, 0);
  EXPECT_EQ(histogram_of(empty({0})).count, 0);
}

TEST(Histogram, DoesNotDependOnThreads) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> values(300000);
  for (auto& value : values) value = normal(random);
  const Tensor tensor = from_host<float>(values, {300000});
  const auto counts = [&](int threads) {
    const ThreadScope scope(threads);
    return histogram_of(tensor).counts;
  };
  EXPECT_EQ(counts(1), counts(3));
  const Histogram h = histogram_of(tensor);
  EXPECT_EQ(std::accumulate(h.counts.begin(), h.counts.end(), std::int64_t{0}), 300000);
}

TEST(Histogram, TakesEveryDtype) {
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16, DType::i64, DType::u8}) {
    const Histogram h = histogram_of(from_doubles(std::vector<double>{1, 2, 3}, {3}, dtype));
    EXPECT_EQ(h.sum, 6) << name(dtype);
    EXPECT_EQ(h.sum_squares, 14) << name(dtype);
  }
}

TEST(Histogram, DistanceIsTheNormOfTheDifference) {
  const Tensor a = from_doubles(std::vector<double>{1, 2, 3}, {3}), b = from_doubles(std::vector<double>{1, 5, 7}, {3});
  EXPECT_DOUBLE_EQ(distance(a, b), 5);
  EXPECT_DOUBLE_EQ(starling::train::norm(b), std::sqrt(75));
  EXPECT_NE(testing::error_of([&] { distance(a, zeros({2})); }).find("f32[2]"), std::string::npos);
}

}  // namespace
}  // namespace starling::train
