#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "starling/ops/def/argument_error.h"
#include "starling/starling.h"

namespace starling {
namespace {

Tensor column(std::vector<double> values) {
  return from_doubles(values, {static_cast<std::int64_t>(values.size()), 1, 1, 1}, DType::f64);
}

TEST(BatchNorm2d, MovesItsRunningStatisticsOncePerTrainingStep) {
  nn::Sequential net;
  net.add("norm", nn::BatchNorm2d({.channels = 1, .momentum = 0.25}));
  net.to(DType::f64);
  net(column({1, 2, 3, 6}));  // mean 3, unbiased variance 14 / 3
  const auto buffers = net.named_buffers();
  ASSERT_EQ(buffers.size(), 2U);
  EXPECT_EQ(buffers[0].first, "norm.running_mean");
  EXPECT_EQ(buffers[1].first, "norm.running_var");
  EXPECT_NEAR(buffers[0].second.item(), 0.75, 1e-12);
  EXPECT_NEAR(buffers[1].second.item(), 0.75 + 0.25 * 14 / 3, 1e-12);
  net.eval();
  const double y = net(column({3})).item();
  EXPECT_NEAR(y, (3 - 0.75) / std::sqrt(0.75 + 0.25 * 14 / 3 + 1e-5), 1e-12);
  EXPECT_NEAR(buffers[0].second.item(), 0.75, 1e-12) << "eval mode leaves them alone";
}

TEST(BatchNorm2d, BuffersAreNoParametersAndGetNoGradient) {
  nn::BatchNorm2d norm({.channels = 2});
  EXPECT_EQ(norm.parameters().size(), 2U);
  EXPECT_EQ(norm.buffers().size(), 2U);
  for (const auto& buffer : norm.buffers()) EXPECT_FALSE(buffer.requires_grad());
  sum(norm(normal({3, 2, 2, 2}))).backward();
  for (const auto& buffer : norm.buffers()) EXPECT_FALSE(buffer.grad().defined());
}

TEST(BatchNorm2d, ACompiledStepMovesTheSameBuffers) {
  const auto run = [](bool compiled) {
    nn::BatchNorm2d norm({.channels = 1});
    norm.to(DType::f64);
    auto f = compile([&](const Tensor& x) { return norm(x); });
    for (int i = 0; i < 3; ++i) {
      const Tensor x = column({1.0 * i, 2, 5});
      compiled ? f(x) : norm(x);
    }
    return std::pair(norm.buffers()[0].item(), norm.buffers()[1].item());
  };
  EXPECT_EQ(run(true), run(false));
}

TEST(BatchNorm2d, RanksThatExchangeStatisticsLeaveTheBuffersOfOneProcess) {
  const auto run = [](int workers) {
    manual_seed(2);
    nn::Sequential net;
    net.add("norm", nn::BatchNorm2d({.channels = 3, .global_statistics = true}));
    net.to(DType::f64);
    CompileOptions options;
    if (workers > 1) options.strategy = data_parallel({.workers = workers});
    auto step = compile([&](const Tensor& x) { return sum(mul(net(x), x)); }, options);
    const Tensor x = normal({6, 3, 2, 2}, {.dtype = DType::f64});
    std::vector<double> all{step(x).item(), step(x).item()};
    for (const auto& buffer : net.buffers()) {
      for (const double value : buffer.to_vector()) all.push_back(value);
    }
    return all;
  };
  const auto one = run(1), two = run(2);
  ASSERT_EQ(one.size(), two.size());
  for (std::size_t i = 0; i < one.size(); ++i) EXPECT_NEAR(one[i], two[i], 1e-10) << i;
  EXPECT_NE(one[2], 0) << "the mean has moved";
}

// Each rank's rows have their own variance and correction factor.
TEST(BatchNorm2d, RanksWithStatisticsOfTheirOwnCorrectTheVarianceByTheirOwnCount) {
  nn::Sequential net;
  net.add("norm", nn::BatchNorm2d({.channels = 1, .momentum = 1}));
  net.to(DType::f64);
  CompileOptions options;
  options.strategy = data_parallel({.workers = 2});
  auto step = compile([&](const Tensor& x) { return sum(net(x)); }, options);
  step(column({1, 5, 2, 2.5}));  // unbiased variances 8 and 0.125 of two rows each
  EXPECT_NEAR(net.buffers()[0].item(), (3 + 2.25) / 2, 1e-12);
  EXPECT_NEAR(net.buffers()[1].item(), (8 + 0.125) / 2, 1e-12);
}

TEST(BatchNorm2d, RefusesOtherChannels) {
  nn::BatchNorm2d norm({.channels = 3});
  EXPECT_THROW(norm(zeros({2, 4, 1, 1})), Error);
  EXPECT_THROW(nn::BatchNorm2d({.channels = 0}), Error);
  EXPECT_THROW(nn::BatchNorm2d({.channels = 1, .momentum = 2}), Error);
}

class Counting : public nn::Module {
 public:
  Counting() : count_(&add_buffer("count", zeros({}, DType::i64))), scale_(&add_buffer("scale", zeros({1}))) {}

 protected:
  Tensor forward(const Tensor& x) override { return x; }

 private:
  Tensor* count_;
  Tensor* scale_;
};

TEST(Module, BuffersFollowAConversionUnlessTheyAreIntegers) {
  nn::Sequential net;
  net.add("counting", Counting());
  const auto before = net.buffers();
  net.to(DType::f64);
  EXPECT_EQ(before[0].dtype(), DType::i64);
  EXPECT_EQ(before[1].dtype(), DType::f64) << "the same tensor, converted";
  net.set_name("outer");
  EXPECT_EQ(net.named_buffers()[0].first, "outer.counting.count");
}

TEST(Residual, AddsWhatTheBodyAndTheShortcutMake) {
  nn::Sequential body, shortcut;
  body.add("relu", nn::Relu());
  const Tensor x = from_doubles(std::vector<double>{-1, 2}, {2});
  EXPECT_EQ(nn::Residual(body)(x).to_vector(), (std::vector<double>{-1, 4}));
  shortcut.add("tanh", nn::Tanh());
  EXPECT_NEAR(nn::Residual(body, shortcut)(x).to_vector()[1], 2 + std::tanh(2.0), 1e-6);
}

TEST(SelfAttention, ATokenSeesOnlyThoseBeforeItWhenCausal) {
  manual_seed(3);
  const Tensor x = normal({1, 4, 8});
  auto values = x.to_vector();
  for (std::size_t i = 3 * 8; i < 4 * 8; ++i) values[i] += 1;  // the last token changes
  const Tensor other = from_doubles(values, {1, 4, 8});
  for (const bool causal : {true, false}) {
    nn::SelfAttention attention({.width = 8, .heads = 2, .causal = causal});
    const auto a = attention(x).to_vector(), b = attention(other).to_vector();
    EXPECT_EQ(std::equal(a.begin(), a.begin() + 3 * 8, b.begin()), causal);
    EXPECT_NE(a, b);
  }
  EXPECT_THROW(nn::SelfAttention({.width = 8, .heads = 3}), Error);
}

TEST(Lstm, WalksOverTimeLikeItsEquations) {
  manual_seed(5);
  nn::Lstm lstm({.in = 2, .hidden = 1});
  lstm.to(DType::f64);
  const Tensor x = normal({3, 1, 2}, {.dtype = DType::f64});
  const auto y = lstm(x).to_vector();
  std::vector<std::vector<double>> w;
  for (const auto& p : lstm.parameters()) w.push_back(p.to_vector());
  const auto sigmoid = [](double v) { return 1 / (1 + std::exp(-v)); };
  double h = 0, c = 0;
  for (std::size_t t = 0; t < 3; ++t) {
    double gates[4];
    for (std::size_t k = 0; k < 4; ++k) {
      gates[k] = w[2][k] + w[3][k] + w[1][k] * h;
      for (std::size_t i = 0; i < 2; ++i) gates[k] += w[0][2 * k + i] * x.to_vector()[2 * t + i];
    }
    c = sigmoid(gates[1]) * c + sigmoid(gates[0]) * std::tanh(gates[2]);
    h = sigmoid(gates[3]) * std::tanh(c);
    EXPECT_NEAR(y[t], h, 1e-12) << "step " << t;
  }
}

TEST(Module, AnErrorNamesTheInnermostLayer) {
  nn::Sequential think, block, net;
  think.add("fc1", nn::Linear({.in = 4, .out = 3})).add("fc2", nn::Linear({.in = 5, .out = 2}));
  block.add("think", think);
  net.add("block1", block);
  std::string told;
  try {
    net(zeros({2, 4}));
  } catch (const ArgumentError& error) {
    told = error.what();
  }
  EXPECT_TRUE(told.ends_with(" (in block1.think.fc2)")) << told;
  EXPECT_EQ(told.find("(in "), told.rfind("(in ")) << "once: " << told;
}

TEST(SharedWeight, IsTrainedByBothLayers) {
  nn::Embedding embed({.vocabulary = 5, .width = 3});
  nn::Linear out({.in = 3, .out = 5, .bias = false});
  out.share_weight(embed.weight());
  EXPECT_TRUE(same(out.weight(), embed.weight()));
  nn::Sequential net;
  net.add("embed", embed).add("out", out);
  ASSERT_EQ(net.parameters().size(), 1U) << "each tensor once";
  EXPECT_EQ(net.named_parameters()[0].first, "embed.weight") << "under its first name";
  const Tensor ids = from_doubles(std::vector<double>{0, 3}, {2}, DType::i64);
  sum(net(ids)).backward();
  const Tensor of_both = embed.weight().grad();
  const Tensor looked_up = embedding(ids, embed.weight().detach());
  for (std::int64_t row = 0; row < 5; ++row) {
    for (std::int64_t column = 0; column < 3; ++column) {
      // The sum of what was looked up, from `out`; and of all rows of the weight, once for each time a row was looked
      // up.
      const double from_out = sum(select(looked_up, 1, column)).item();
      const double from_embed = row == 0 || row == 3 ? sum(select(embed.weight().detach(), 1, column)).item() : 0;
      EXPECT_NEAR(select(select(of_both, 0, row), 0, column).item(), from_out + from_embed, 1e-5);
    }
  }
}

TEST(SharedWeight, IsRefusedWhereItDoesNotFit) {
  nn::Linear linear({.in = 3, .out = 5});
  const Tensor before = linear.weight();
  EXPECT_THROW(linear.share_weight(nn::Embedding({.vocabulary = 4, .width = 3}).weight()), ArgumentError);
  const nn::Embedding fits({.vocabulary = 5, .width = 3});
  EXPECT_THROW(linear.share_weight(cast(fits.weight().detach(), DType::f64)), ArgumentError);
  EXPECT_THROW(linear.share_weight(mul(fits.weight(), fits.weight())), Error) << "what an op has made is no parameter";
  EXPECT_THROW(linear.share_weight(fits.weight().detach()), Error) << "it would be trained where nobody looks";
  EXPECT_TRUE(same(linear.weight(), before));
}

TEST(SharedWeight, StaysFrozen) {
  nn::Linear linear({.in = 3, .out = 5});
  const nn::Embedding frozen({.vocabulary = 5, .width = 3});
  Tensor weight = frozen.weight();
  weight.set_requires_grad(false);
  linear.share_weight(frozen.weight());
  EXPECT_TRUE(same(linear.weight(), frozen.weight()));
  EXPECT_FALSE(linear.weight().requires_grad());
}

TEST(MeanOverTime, AveragesTheFirstAxis) {
  const Tensor x = from_doubles(std::vector<double>{1, 2, 3, 6}, {2, 2, 1});
  nn::MeanOverTime mean;
  EXPECT_EQ(mean(x).to_vector(), (std::vector<double>{2, 4}));
  nn::TimeFirst time_first;
  EXPECT_EQ(time_first(x).to_vector(), (std::vector<double>{1, 3, 2, 6}));
}

TEST(GlobalAvgPool, AveragesEveryChannel) {
  nn::GlobalAvgPool pool;
  EXPECT_EQ(pool(from_doubles(std::vector<double>{1, 3, 5, 9}, {1, 2, 1, 2})).to_vector(), (std::vector<double>{2, 7}));
  EXPECT_THROW(pool(zeros({2, 3})), Error);
}

}  // namespace
}  // namespace starling
