#include <gtest/gtest.h>

#include <cmath>

#include "starling/starling.h"

namespace starling {
namespace {

TEST(Dropout, ChannelsGoAsAWhole) {
  manual_seed(2);
  nn::ChannelDropout drop({.p = 0.5});
  const auto y = drop(add(zeros({16, 32, 2, 3}), 1.0)).to_vector();
  int dropped = 0;
  for (std::size_t c = 0; c < 16 * 32; ++c) {
    for (std::size_t i = 1; i < 6; ++i) EXPECT_EQ(y[6 * c + i], y[6 * c]);
    EXPECT_TRUE(y[6 * c] == 0 || y[6 * c] == 2);
    dropped += y[6 * c] == 0;
  }
  EXPECT_NEAR(dropped, 256, 5 * std::sqrt(128.0));
}

TEST(Dropout, AlphaDropoutKeepsMeanAndVariance) {
  manual_seed(2);
  nn::AlphaDropout drop({.p = 0.3});
  const Tensor y = drop(normal({400, 500}));
  EXPECT_NEAR(mean(y).item(), 0, 0.02);
  EXPECT_NEAR(mean(square(y)).item(), 1, 0.02);
}

TEST(GaussianNoise, AddsNumbersOfItsDeviation) {
  manual_seed(2);
  nn::GaussianNoise noise({.stddev = 0.3});
  EXPECT_NEAR(mean(square(noise(zeros({200, 200})))).item(), 0.09, 0.002);
  noise.eval();
  EXPECT_EQ(mean(square(noise(zeros({2, 2})))).item(), 0);
}

TEST(RoiAlign, TakesBoxesBesideFeatureMaps) {
  nn::RoiAlign align({.size = 2});
  const Tensor x = normal({2, 3, 8, 8});
  const Tensor boxes = from_doubles(std::vector<double>{0, 0, 4, 4, 1, 2, 7, 6}, {2, 4});
  const Tensor sample = from_host<std::int64_t>(std::vector<std::int64_t>{1, 0}, {2});
  EXPECT_EQ(align({x, boxes, sample})[0].to_vector(), roi_align(x, boxes, sample, {.size = {2, 2}}).to_vector());
  EXPECT_THROW(align(x), Error);
}

TEST(Noise, IsTheSameOnOneRankAndOnTwo) {
  const auto run = [](int workers, auto layer) {
    const SiteCounts sites;
    manual_seed(2);
    CompileOptions options;
    if (workers > 1) options.strategy = data_parallel({.workers = workers});
    auto f = compile([&](const Tensor& x) { return sum(mul(layer(x), x)); }, options);
    return f(normal({6, 4, 3}, {.dtype = DType::f64})).item();
  };
  EXPECT_NEAR(run(1, nn::Dropout(0.5)), run(2, nn::Dropout(0.5)), 1e-12);
  EXPECT_NEAR(run(1, nn::ChannelDropout()), run(2, nn::ChannelDropout()), 1e-12);
  EXPECT_NEAR(run(1, nn::AlphaDropout()), run(2, nn::AlphaDropout()), 1e-12);
  EXPECT_NEAR(run(1, nn::GaussianNoise()), run(2, nn::GaussianNoise()), 1e-12);
}

}  // namespace
}  // namespace starling
