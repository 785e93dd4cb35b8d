#include "starling/train/loop/precision.h"

#include <gtest/gtest.h>

#include <cmath>

#include "starling/autograd/autograd.h"
#include "starling/base/error.h"
#include "starling/graph/printer.h"
#include "starling/nn/normalize.h"
#include "starling/ops/api/activation.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/conv.h"
#include "starling/ops/api/loss.h"
#include "starling/ops/api/matmul.h"
#include "starling/ops/api/softmax.h"
#include "starling/ops/api/unary.h"
#include "starling/train/loop/autocast.h"
#include "train/trainer_testing.h"

namespace starling::train {
namespace {

using testing::points;
using testing::quiet;
using testing::small_net;

TEST(Autocast, ComputesProductsInHalfAndDelicateThingsInF32) {
  const Tensor a = normal({4, 8}), b = normal({8, 3});
  const Autocast autocast(Precision::bf16);
  const Tensor y = matmul(a, b);
  EXPECT_EQ(y.dtype(), DType::bf16);
  EXPECT_EQ(relu(y).dtype(), DType::bf16);
  EXPECT_EQ(softmax(y).dtype(), DType::f32);
  EXPECT_EQ(exp(y).dtype(), DType::f32);
  EXPECT_EQ(add(y, normal({4, 3})).dtype(), DType::f32);
  EXPECT_EQ(mse(y, zeros({4, 3})).dtype(), DType::f32);
}

TEST(Autocast, DoesNothingInF32AndEndsWithItsScope) {
  const Tensor a = normal({4, 8}), b = normal({8, 3});
  {
    const Autocast autocast(Precision::f32);
    EXPECT_EQ(matmul(a, b).dtype(), DType::f32);
  }
  { const Autocast autocast(Precision::f16); }
  EXPECT_EQ(matmul(a, b).dtype(), DType::f32);
}

TEST(Autocast, GivesF32GradientsCloseToThoseOfF32) {
  const auto gradient = [](Precision precision) {
    auto net = small_net();
    const auto data = points(16);
    Loader loader(data, {.batch = 16, .shuffle = false});
    const Batch* batch = loader.next();
    {
      Tensor loss;
      {
        const Autocast autocast(precision);
        loss = cross_entropy(net(batch->fields[0]), batch->fields[1]);
      }
      loss.backward();
    }
    const Tensor grad = net.parameters()[0].grad();
    EXPECT_EQ(grad.dtype(), DType::f32);
    return grad.to_vector();
  };
  const auto exact = gradient(Precision::f32);
  double size = 0;
  for (const double v : exact) size = std::max(size, std::abs(v));
  for (const Precision precision : {Precision::bf16, Precision::f16}) {
    const auto close = gradient(precision);
    EXPECT_NE(close, exact) << "nothing was computed in half precision";
    for (std::size_t i = 0; i < exact.size(); ++i) EXPECT_NEAR(close[i], exact[i], 0.02 * size);
  }
}

struct Losses {
  std::vector<double> all;
  std::vector<bool> skipped;
};

// A network with convolutions, norms and products, twenty steps. `still`: steps that change no weight.
Losses train(Precision precision, std::int64_t accumulate = 1, const std::vector<bool>& still = {}) {
  constexpr double kRate = 0.05;
  manual_seed(1);
  nn::Sequential net;
  net.add("conv", nn::Conv2d({.in = 1, .out = 4, .kernel = 3, .padding = 1}))
      .add("norm", nn::BatchNorm2d({.channels = 4}))
      .add("relu", nn::Relu())
      .add("pool", nn::MaxPool2d())
      .add("flat", nn::Flatten())
      .add("fc", nn::Linear({.in = 64, .out = 4}));
  manual_seed(2);
  const Tensor x = normal({160, 1, 8, 8});
  std::vector<std::int64_t> labels;
  for (std::int64_t i = 0; i < 160; ++i) labels.push_back(x.data<float>()[i * 64] > 0 ? 1 : 3);
  const auto data = std::make_shared<TensorDataset>(std::vector<Tensor>{x, from_host<std::int64_t>(labels, {160})});
  const auto rate = [&](std::size_t step) { return step < still.size() && still[step] ? 0.0 : kRate; };
  optim::Sgd optimizer(net.parameters(), {.lr = rate(0)});
  Trainer trainer(net, optimizer, classify(),
                  quiet({.epochs = 2, .batch = 16 / accumulate, .accumulate = accumulate, .precision = precision}));
  Losses losses;
  trainer.add(after_step([&](starling::Run& run) {
    losses.all.push_back(run.last().loss);
    losses.skipped.push_back(run.last().skipped);
    optimizer.set_lr(rate(losses.all.size()));
  }));
  trainer.fit(data);
  for (const auto& p : net.parameters()) EXPECT_EQ(p.dtype(), DType::f32);
  EXPECT_EQ(losses.all.size(), 20U);
  return losses;
}

void expect_close(const std::vector<double>& half, const std::vector<double>& exact, double most, Precision precision) {
  EXPECT_LT(exact.back(), exact.front() - 0.3) << "it must learn";
  EXPECT_NE(half, exact);
  ASSERT_EQ(half.size(), exact.size());
  for (std::size_t i = 0; i < exact.size(); ++i)
    EXPECT_NEAR(half[i], exact[i], most) << to_string(precision) << " at step " << i;
}

TEST(Precision, LossesOfTwentyStepsStayCloseToThoseOfF32) {
  for (const Precision precision : {Precision::bf16, Precision::f16}) {
    const Losses half = train(precision);
    expect_close(half.all, train(Precision::f32, 1, half.skipped).all, 0.03, precision);
  }
}

// The first scales may overflow: the exact run stands still at the steps that were skipped, so that the others are the
// same steps.
TEST(Precision, ScalesLossesOfAccumulatedBatches) {
  const Losses half = train(Precision::f16, 2);
  expect_close(half.all, train(Precision::f32, 2, half.skipped).all, 0.01, Precision::f16);
}

// Losses so large that the first scales overflow: the steps are skipped until one fits.
TEST(Precision, SkipsStepsThatOverflowAndGoesOn) {
  auto net = small_net();
  optim::Sgd optimizer(net.parameters(), {.lr = 1e-4});
  const auto large = own_objective([](nn::Module& module, std::span<const Tensor> fields) {
    const Tensor logits = module(fields[0]);
    return Objective::Outputs{.loss = mul(cross_entropy(logits, fields[1]), 1000), .prediction = logits};
  });
  Trainer trainer(net, optimizer, large, quiet({.epochs = 4, .batch = 16, .precision = Precision::f16}));
  std::vector<bool> skipped;
  std::vector<std::vector<double>> weights;
  trainer.add(after_step([&](starling::Run& run) {
    skipped.push_back(run.last().skipped);
    weights.push_back(run.net().parameters()[0].to_vector());
  }));
  const FitResult result = trainer.fit(points(160));
  EXPECT_TRUE(skipped.front());
  EXPECT_FALSE(skipped.back());
  EXPECT_EQ(result.summary.skipped, std::count(skipped.begin(), skipped.end(), true));
  for (std::size_t i = 1; i < skipped.size(); ++i) EXPECT_EQ(weights[i] == weights[i - 1], skipped[i]) << i;
}

TEST(Precision, ReadsItsNames) {
  EXPECT_EQ(parse_precision("bf16"), Precision::bf16);
  EXPECT_EQ(to_string(Precision::f16), "f16");
  EXPECT_THROW(parse_precision("fp16"), Error);
}

}  // namespace
}  // namespace starling::train
