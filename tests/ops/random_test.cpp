#include "starling/ops/api/random.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <thread>

#include "starling/base/parallel.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "starling/ops/def/attrs/random.h"
#include "starling/ops/def/registry.h"

namespace starling {
namespace {

Tensor key_of(std::int64_t seed, std::int64_t step = 0) {
  const std::int64_t words[] = {seed, step};
  return from_host<std::int64_t>(words, {2});
}

struct Moments {
  double mean = 0, variance = 0;
  explicit Moments(const Tensor& x) {
    const auto values = x.to_vector();
    const auto n = static_cast<double>(values.size());
    for (double v : values) mean += v / n;
    for (double v : values) variance += (v - mean) * (v - mean) / n;
  }
};

// Σ (seen - expected)² / expected.
double chi_square(const std::vector<double>& seen, const std::vector<double>& expected) {
  double sum = 0;
  for (std::size_t i = 0; i < seen.size(); ++i) sum += (seen[i] - expected[i]) * (seen[i] - expected[i]) / expected[i];
  return sum;
}

// Far above what chance gives for this many degrees of freedom, far below what a wrong distribution gives.
double most(double freedom) { return freedom + 4 * std::sqrt(2 * freedom); }

constexpr std::int64_t kMany = 200000;

TEST(Random, BernoulliHasItsMeanAndVariance) {
  for (double p : {0.0, 0.1, 0.5, 0.93, 1.0}) {
    manual_seed(11);
    const Moments m(bernoulli({kMany}, p, DType::f64));
    EXPECT_NEAR(m.mean, p, 4 * std::sqrt(p * (1 - p) / kMany) + 1e-9);
    EXPECT_NEAR(m.variance, p * (1 - p), 0.01);
  }
}

TEST(Random, BernoulliFollowsATensorOfProbabilities) {
  manual_seed(12);
  std::vector<double> p(kMany);
  for (std::size_t i = 0; i < p.size(); ++i) p[i] = static_cast<double>(i % 5) / 4;
  const auto drawn = bernoulli(from_doubles(p, {kMany})).to_vector();
  std::map<double, double> ones;
  for (std::size_t i = 0; i < p.size(); ++i) ones[p[i]] += drawn[i];
  for (const auto& [probability, count] : ones) EXPECT_NEAR(count / (kMany / 5), probability, 0.01);
  const double wrong[] = {0.5, 1.5};
  EXPECT_THROW(bernoulli(from_doubles(wrong, {2})), Error);
}

TEST(Random, RandintIsEvenOverItsRange) {
  manual_seed(13);
  for (std::int64_t range : {2, 7, 100}) {
    const auto drawn = randint({kMany}, {.low = -3, .high = range - 3}).to_vector();
    std::vector<double> seen(static_cast<std::size_t>(range));
    for (double v : drawn) seen.at(static_cast<std::size_t>(v + 3)) += 1;
    const std::vector<double> expected(seen.size(), static_cast<double>(kMany) / static_cast<double>(range));
    EXPECT_LT(chi_square(seen, expected), most(static_cast<double>(range - 1)));
  }
}

// 5/8 of 2^64: the remainder of a division would favour the lower numbers twice over.
TEST(Random, RandintIsEvenWhereManyDrawsAreRejected) {
  manual_seed(14);
  const std::int64_t quarter = std::int64_t{1} << 62;
  const Tensor drawn = randint({kMany}, {.low = -quarter, .high = quarter + quarter / 2});
  std::vector<double> seen(5);
  for (std::int64_t i = 0; i < kMany; ++i) {
    const std::int64_t v = drawn.data<std::int64_t>()[i];
    ASSERT_TRUE(v >= -quarter && v < quarter + quarter / 2);
    const auto above = static_cast<std::uint64_t>(v) + static_cast<std::uint64_t>(quarter);
    seen.at(above / static_cast<std::uint64_t>(quarter / 2)) += 1;
  }
  EXPECT_LT(chi_square(seen, std::vector<double>(5, kMany / 5.0)), most(4));
}

TEST(Random, MultinomialWithReplacementFollowsTheWeights) {
  manual_seed(15);
  const double weights[] = {1, 0, 3, 6, 2, 0};
  const auto drawn = multinomial(from_doubles(weights, {6}), {.count = kMany, .replacement = true}).to_vector();
  std::vector<double> seen(6);
  for (double v : drawn) seen.at(static_cast<std::size_t>(v)) += 1;
  EXPECT_EQ(seen[1], 0);
  EXPECT_EQ(seen[5], 0);
  std::vector<double> counted, expected;
  for (std::size_t i : {0, 2, 3, 4}) counted.push_back(seen[i]), expected.push_back(kMany * weights[i] / 12);
  EXPECT_LT(chi_square(counted, expected), most(3));
}

// The chance of an ordered pair is that of drawing one after the other.
TEST(Random, MultinomialWithoutReplacementDrawsOneAfterAnother) {
  manual_seed(16);
  constexpr std::int64_t kRows = 60000;
  const double weights[] = {1, 2, 5};
  const Tensor rows = broadcast_to(from_doubles(weights, {1, 3}), {kRows, 3});
  const Tensor drawn = multinomial(rows, {.count = 2});
  std::vector<double> seen(9), counted, expected;
  for (std::int64_t i = 0; i < kRows; ++i) {
    const auto* pair = drawn.data<std::int64_t>() + 2 * i;
    ASSERT_NE(pair[0], pair[1]);
    seen.at(static_cast<std::size_t>(3 * pair[0] + pair[1])) += 1;
  }
  for (std::size_t a = 0; a < 3; ++a) {
    for (std::size_t b = 0; b < 3; ++b) {
      if (a == b) continue;
      counted.push_back(seen[3 * a + b]);
      expected.push_back(kRows * weights[a] / 8 * weights[b] / (8 - weights[a]));
    }
  }
  EXPECT_LT(chi_square(counted, expected), most(5));
}

// The arrival times of categories of such small weight overflow.
TEST(Random, MultinomialWithoutReplacementNeverDrawsAWeightOfZero) {
  manual_seed(17);
  const double weights[] = {0, 5e-324, 0, 5e-324};
  for (int i = 0; i < 20; ++i) {
    const Tensor drawn = multinomial(from_doubles(weights, {4}, DType::f64), {.count = 2});
    std::multiset<std::int64_t> seen(drawn.data<std::int64_t>(), drawn.data<std::int64_t>() + 2);
    ASSERT_EQ(seen, (std::multiset<std::int64_t>{1, 3}));
  }
}

TEST(Random, MultinomialRefusesWhatCannotBeDrawn) {
  const double negative[] = {1, -1}, none[] = {0, 0}, one[] = {0, 2};
  EXPECT_THROW(multinomial(from_doubles(negative, {2})), Error);
  EXPECT_THROW(multinomial(from_doubles(none, {2})), Error);
  EXPECT_THROW(multinomial(from_doubles(one, {2}), {.count = 2}), Error);
  EXPECT_THROW(multinomial(from_doubles(one, {2}), {.count = 3}), Error);
}

TEST(Random, PermutationsHaveEveryNumberOnceAndEveryOrderAlike) {
  manual_seed(17);
  const auto large = permutation(1000).to_vector();
  EXPECT_EQ(std::set<double>(large.begin(), large.end()).size(), 1000u);
  std::map<std::vector<double>, double> orders;
  constexpr int kTimes = 24000;
  for (int i = 0; i < kTimes; ++i) orders[permutation(4).to_vector()] += 1;
  ASSERT_EQ(orders.size(), 24u);
  std::vector<double> seen;
  for (const auto& [order, count] : orders) seen.push_back(count);
  EXPECT_LT(chi_square(seen, std::vector<double>(24, kTimes / 24.0)), most(23));
}

TEST(Random, ShuffleMovesSlicesAsThePermutationSays) {
  const OpDef& op = find_op("shuffle");
  const Tensor key = key_of(5);
  std::vector<double> values(24);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  const Tensor x = from_doubles(values, {2, 4, 3});
  const Tensor y = apply1(op, {x, key}, op::ShuffleAttrs{.axis = 1, .site = 9});
  const auto order = apply1(find_op("permutation"), {key}, op::PermutationAttrs{4, 9}).to_vector();
  const auto got = y.to_vector();
  for (std::size_t i = 0; i < 24; ++i) {
    const auto from = i / 12 * 12 + static_cast<std::size_t>(order[i / 3 % 4]) * 3 + i % 3;
    EXPECT_EQ(got[i], values[from]);
  }
  EXPECT_EQ(apply1(op, {y, key}, op::ShuffleAttrs{.axis = 1, .inverse = true, .site = 9}).to_vector(), values);
}

// A piece has the same values as the whole at its position, on any number of threads.
TEST(Random, PiecesAreThoseOfTheWhole) {
  const Tensor key = key_of(3, 4);
  const auto compare = [&](const char* name, auto whole, auto piece, std::span<const Tensor> more = {}) {
    std::vector<Tensor> in{key};
    in.insert(in.end(), more.begin(), more.end());
    whole.shape = {600, 50};
    piece.shape = {100, 50};
    piece.global = {600, 50};
    piece.offset = {300, 0};
    const Tensor all = apply1(find_op(name), in, whole);
    const ThreadScope threads(3);
    const Tensor part = apply1(find_op(name), in, piece);
    EXPECT_EQ(part.to_vector(), slice(all, {.axis = 0, .begin = 300, .end = 400}).to_vector()) << name;
    EXPECT_EQ(apply1(find_op(name), in, whole).to_vector(), all.to_vector()) << name;
  };
  compare("bernoulli", op::BernoulliAttrs{.site = 5}, op::BernoulliAttrs{.site = 5});
  compare("randint", op::RandintAttrs{.site = 5, .high = 1000}, op::RandintAttrs{.site = 5, .high = 1000});
}

TEST(Random, MultinomialPiecesAreThoseOfTheWhole) {
  const Tensor key = key_of(3, 4), weights = uniform({12, 5});
  const Tensor some = slice(weights, {.axis = 0, .begin = 4, .end = 7});
  for (bool replacement : {false, true}) {
    op::MultinomialAttrs attrs{3, replacement, {}, {}, 8};
    const Tensor all = apply1(find_op("multinomial"), {weights, key}, attrs);
    attrs.global = {12, 3};
    attrs.offset = {4, 0};
    const Tensor part = apply1(find_op("multinomial"), {some, key}, attrs);
    EXPECT_EQ(part.to_vector(), slice(all, {.axis = 0, .begin = 4, .end = 7}).to_vector());
  }
}

TEST(Random, OtherSeedsStepsAndSitesDrawOtherNumbers) {
  const auto draw = [](std::int64_t seed, std::int64_t step, std::int64_t site) {
    return apply1(find_op("randint"), {key_of(seed, step)}, op::RandintAttrs{.shape = {50}, .site = site, .high = 1000})
        .to_vector();
  };
  const auto first = draw(1, 2, 3);
  EXPECT_EQ(draw(1, 2, 3), first);
  EXPECT_NE(draw(2, 2, 3), first);
  EXPECT_NE(draw(1, 3, 3), first);
  EXPECT_NE(draw(1, 2, 4), first);
}

TEST(Random, BoundsAndDeviationsThatMakeNoDistributionAreRefused) {
  const double nan = NAN, inf = INFINITY;
  EXPECT_NO_THROW(uniform({2}, {.low = 1, .high = 1}));
  EXPECT_THROW(uniform({2}, {.low = 1, .high = 0}), Error);
  EXPECT_THROW(uniform({2}, {.low = nan, .high = 1}), Error);
  EXPECT_THROW(uniform({2}, {.low = 0, .high = inf}), Error);
  EXPECT_THROW(uniform({2}, {.low = -1e308, .high = 1e308}), Error) << "the width overflows";
  EXPECT_NO_THROW(normal({2}, {.mean = 3, .stddev = 0}));
  EXPECT_THROW(normal({2}, {.mean = 0, .stddev = -1}), Error);
  EXPECT_THROW(normal({2}, {.mean = 0, .stddev = nan}), Error);
  EXPECT_THROW(normal({2}, {.mean = inf, .stddev = 1}), Error);
}

TEST(Random, UniformStaysBelowItsUpperEndInEveryDtype) {
  struct Range {
    double low, high;
  };
  for (DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    for (const Range& range : {Range{0, 1}, Range{1, 2}, Range{-1, 0}, Range{-4, -1}, Range{100, 101}}) {
      manual_seed(21);
      double most = range.low, least = range.high;
      const Tensor drawn = uniform({kMany}, {.low = range.low, .high = range.high, .dtype = dtype});
      for (double v : drawn.to_vector()) most = std::max(most, v), least = std::min(least, v);
      EXPECT_LT(most, range.high) << name(dtype) << " from " << range.low;
      EXPECT_GE(least, range.low) << name(dtype) << " from " << range.low;
      EXPECT_GT(most, range.high - 1) << name(dtype) << " from " << range.low;
    }
  }
  EXPECT_EQ(uniform({2}, {.low = 3, .high = 3}).to_vector(), (std::vector<double>{3, 3}));
}

TEST(Random, TheFirstTwoDrawsOfAThreadDiffer) {
  std::vector<double> first, second;
  std::thread([&] {
    first = uniform({4}).to_vector();
    second = uniform({4}).to_vector();
  }).join();
  EXPECT_NE(first, second);
}

}  // namespace
}  // namespace starling
