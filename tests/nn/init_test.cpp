#include "starling/nn/init.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "starling/starling.h"
#include "testing/temporary_folder.h"

namespace starling {
namespace {

using nn::Init;
using nn::initial;
using testing::error_of;

struct Moments {
  double mean = 0, deviation = 0, low = 0, high = 0;
};

Moments moments(const Tensor& x) {
  const auto v = x.to_vector();
  Moments m{.low = v[0], .high = v[0]};
  for (const double value : v) {
    m.mean += value / static_cast<double>(v.size());
    m.low = std::min(m.low, value);
    m.high = std::max(m.high, value);
  }
  for (const double value : v) m.deviation += (value - m.mean) * (value - m.mean) / static_cast<double>(v.size());
  m.deviation = std::sqrt(m.deviation);
  return m;
}

const Shape kWeight{300, 50, 3, 3};  // fan-in 450, fan-out 2700

TEST(Init, SpreadsByFans) {
  manual_seed(1);
  struct Expected {
    Init init;
    double deviation;
    bool uniform;
  };
  for (const auto& [init, deviation, uniform] : {Expected{Init::xavier_uniform(), std::sqrt(2.0 / 3150), true},
                                                 Expected{Init::xavier_normal(2), 2 * std::sqrt(2.0 / 3150), false},
                                                 Expected{Init::he_uniform(), std::sqrt(2.0 / 450), true},
                                                 Expected{Init::he_normal(), std::sqrt(2.0 / 450), false},
                                                 Expected{Init::he_normal(true), std::sqrt(2.0 / 2700), false},
                                                 Expected{Init::lecun_uniform(), std::sqrt(1.0 / 450), true},
                                                 Expected{Init::lecun_normal(), std::sqrt(1.0 / 450), false}}) {
    SCOPED_TRACE(name(init.kind));
    const Moments m = moments(initial(kWeight, init));  // 135000 numbers: errors of 0.2 % are expected
    EXPECT_NEAR(m.mean, 0, 0.01 * deviation);
    EXPECT_NEAR(m.deviation, deviation, 0.01 * deviation);
    const double bound = std::sqrt(3.0) * deviation;
    EXPECT_EQ(m.high <= bound && m.low >= -bound, uniform);
    EXPECT_GT(m.high, 0.99 * bound);
  }
}

TEST(Init, TruncatesTheNormalDistribution) {
  manual_seed(1);
  const Moments m = moments(initial({400, 500}, Init::truncated_normal(0.5, 2, 1)));
  EXPECT_NEAR(m.mean, 1, 0.005);
  EXPECT_NEAR(m.deviation, 0.5 * 0.87963, 0.003) << "that of a normal distribution cut at 2";
  EXPECT_GE(m.low, 0);
  EXPECT_LE(m.high, 2);
  EXPECT_LT(m.low, 0.01);
  EXPECT_GT(m.high, 1.99);
}

TEST(Init, OrthogonalRowsOrColumnsAreOrthonormal) {
  manual_seed(1);
  for (const Shape& shape : {Shape{20, 50}, Shape{50, 20}, Shape{30, 30}, Shape{8, 3, 5, 5}, Shape{1, 4}}) {
    const Tensor w = reshape(initial(shape, Init::orthogonal(3)), {shape[0], shape.numel() / shape[0]});
    const bool wide = w.size(0) <= w.size(1);
    const Tensor product = wide ? matmul(w, w, {.trans_b = true}) : matmul(w, w, {.trans_a = true});
    const Tensor wanted = mul(eye(product.size(0)), 9.0);
    EXPECT_LT(moments(abs(sub(product, wanted))).high, 1e-4) << to_string(shape);
  }
}

TEST(Init, OrthogonalMatricesHaveNoPreferredDirection) {
  manual_seed(1);
  double trace = 0, first = 0;
  constexpr int kTimes = 400;
  for (int i = 0; i < kTimes; ++i) {
    const auto w = initial({3, 3}, Init::orthogonal()).to_vector();
    trace += (w[0] + w[4] + w[8]) / kTimes;
    first += w[0] / kTimes;
  }
  EXPECT_NEAR(trace, 0, 0.2) << "Haar's mean, deviation 1 / 20";
  EXPECT_NEAR(first, 0, 0.12);
}

TEST(Init, SparseColumnsHaveExactlySoManyZeros) {
  manual_seed(1);
  const auto w = initial({40, 30}, Init::sparse(0.75, 0.5)).to_vector();
  double squares = 0;
  std::set<std::vector<bool>> patterns;
  for (std::size_t c = 0; c < 30; ++c) {
    std::vector<bool> zeros;
    for (std::size_t r = 0; r < 40; ++r) {
      zeros.push_back(w[r * 30 + c] == 0);
      squares += w[r * 30 + c] * w[r * 30 + c];
    }
    EXPECT_EQ(std::count(zeros.begin(), zeros.end(), true), 30);
    patterns.insert(zeros);
  }
  EXPECT_GT(patterns.size(), 25U) << "each column has its own";
  EXPECT_NEAR(std::sqrt(squares / 300), 0.5, 0.08);
}

TEST(Init, IdentityAndDiracPassTheirInputThrough) {
  manual_seed(1);
  const Tensor x = normal({2, 4, 5, 5});
  nn::Conv2d conv({.in = 4, .out = 4, .kernel = 3, .padding = 1, .bias = false, .init = Init::dirac()});
  EXPECT_EQ(conv(x).to_vector(), x.to_vector());
  nn::Conv2d groups({.in = 4, .out = 4, .kernel = 3, .padding = 1, .groups = 2, .bias = false, .init = Init::dirac(2)});
  EXPECT_EQ(groups(x).to_vector(), x.to_vector());
  nn::Linear dense({.in = 5, .out = 5, .init = Init::identity(), .bias_init = Init::constant(2)});
  EXPECT_EQ(dense(x).to_vector(), add(x, 2.0).to_vector());
}

TEST(Init, DependsOnTheSeedAndNotOnThreads) {
  for (const Init& init : {Init::normal(), Init::he_uniform(), Init::truncated_normal(), Init::orthogonal(),
                           Init::sparse(0.5), Init::xavier_normal()}) {
    SCOPED_TRACE(name(init.kind));
    const auto draw = [&](std::int64_t seed, int threads) {
      const ThreadScope scope(threads);
      const SiteCounts sites;
      manual_seed(seed);
      return initial({130, 90}, init).to_vector();
    };
    EXPECT_EQ(draw(3, 1), draw(3, 4));
    EXPECT_NE(draw(3, 1), draw(4, 1));
  }
}

TEST(Initialise, GivesNewValuesToThoseWhoseNamesMatch) {
  manual_seed(1);
  nn::Sequential net;
  net.add("fc1", nn::Linear({.in = 30, .out = 20})).add("fc2", nn::Linear({.in = 20, .out = 10}));
  const auto before = net.parameters()[2].to_vector();
  EXPECT_EQ(nn::initialise(net, "*.bias", Init::constant(0)), 2U);
  EXPECT_EQ(nn::initialise(net, "fc1.*t", Init::constant(3)), 1U);
  EXPECT_EQ(net.parameters()[0].to_vector(), std::vector<double>(600, 3));
  EXPECT_EQ(net.parameters()[1].to_vector(), std::vector<double>(20, 0));
  EXPECT_EQ(net.parameters()[2].to_vector(), before);
  EXPECT_TRUE(net.parameters()[0].requires_grad());
  EXPECT_NE(error_of([&] { nn::initialise(net, "fc9.*", Init::constant(0)); }).find("fc9.*"), std::string::npos);
}

TEST(Initialise, DrawsByNameSoThatOtherLayersChangeNothing) {
  const auto weights = [](bool more) {
    const SiteCounts sites;
    manual_seed(5);
    nn::Sequential net;
    if (more) net.add("zero", nn::Linear({.in = 3, .out = 3}));
    net.add("fc", nn::Linear({.in = 3, .out = 4}));
    nn::initialise(net, "*weight", Init::normal());
    return net.find("fc").parameters()[0].to_vector();
  };
  EXPECT_EQ(weights(false), weights(true));
}

TEST(Init, PatternsMatchWholeNames) {
  EXPECT_TRUE(nn::matches("block1.conv.weight", "block?.*.weight"));
  EXPECT_TRUE(nn::matches("weight", "*"));
  EXPECT_FALSE(nn::matches("block10.conv.weight", "block?.*.weight"));
  EXPECT_FALSE(nn::matches("weights", "weight"));
}

TEST(Init, RefusesShapesItCannotFill) {
  EXPECT_THROW(initial({4}, Init::he_normal()), Error);
  EXPECT_THROW(initial({4, 4, 3}, Init::identity()), Error);
  EXPECT_THROW(initial({4, 4}, Init::dirac()), Error);
  EXPECT_THROW(initial({4}, Init::orthogonal()), Error);
  EXPECT_THROW(initial({4}, Init{}), Error);
}

}  // namespace
}  // namespace starling
