#include <gtest/gtest.h>

#include "cuda/cuda_testing.h"
#include "starling/starling.h"
#include "starling/tensor/out_of_memory.h"
#include "starling/train/loop/autocast.h"
#include "starling/training.h"
#include "starling/zoo/zoo.h"

namespace starling::testing {
namespace {

// The small version of a network of the zoo, its optimizer and one batch, on a device. Two are made alike.
struct Trained {
  std::shared_ptr<nn::Module> net;
  std::unique_ptr<optim::Optimizer> optimizer;
  TensorList batch;
  Precision precision;

  Trained(const std::string& name, const std::string& rule, Device device, Precision wanted = Precision::f32)
      : precision(wanted) {
    manual_seed(7);
    zoo::Sized sized = zoo::nets().small(name);
    for (const char* key : {"dropout", "stochastic_depth"}) {
      if (zoo::has_option(sized.net, key)) sized.net = zoo::with(sized.net, {{key, 0}});
    }
    const zoo::Recipe recipe = sized.net.make();
    net = recipe.make();
    batch = zoo::random_batch(recipe, sized.batch, DType::f32);
    net->to(device);
    for (Tensor& field : batch) field = to(field, device);
    if (rule == "adam")
      optimizer = std::make_unique<optim::Adam>(net->parameters(), optim::AdamOptions{.lr = 1e-3});
    else
      optimizer = std::make_unique<optim::Sgd>(net->parameters(), optim::SgdOptions{.lr = 0.01, .momentum = 0.9});
    default_generator().to(device);
  }

  Tensor loss_of(const Tensor& x, const Tensor& y) {
    const train::Autocast autocast(precision);
    const Tensor out = (*net)(x);
    const std::int64_t classes = out.shape().back();
    return out.rank() == 2 ? cross_entropy(out, y)
                           : cross_entropy(reshape(out, {out.numel() / classes, classes}), reshape(y, {y.numel()}));
  }

  std::vector<double> losses(int steps) {
    auto step = compile([this](const Tensor& x, const Tensor& y) {
      Tensor loss = loss_of(x, y);
      if (is_half(loss.dtype())) loss = cast(loss, DType::f32);
      loss.backward();
      optimizer->step();
      return loss;
    });
    std::vector<double> found;
    for (int i = 0; i < steps; ++i) found.push_back(to(step(batch[0], batch[1]), kCpu).item());
    return found;
  }
};

struct Case {
  const char* net;
  const char* rule;
};

class CudaTraining : public ::testing::TestWithParam<Case> {};

TEST_P(CudaTraining, TenStepsOfItLoseAsMuchAsOnTheCpu) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  const auto want = Trained(GetParam().net, GetParam().rule, kCpu).losses(10);
  const auto got = Trained(GetParam().net, GetParam().rule, kGpu).losses(10);
  default_generator().to(kCpu);
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(got[i], want[i], 1e-3 * std::max(1.0, std::abs(want[i]))) << "step " << i;
  EXPECT_NE(got.front(), got.back()) << "nothing was learnt";
}

INSTANTIATE_TEST_SUITE_P(Of, CudaTraining,
                         ::testing::Values(Case{"lenet", "sgd"}, Case{"alexnet", "sgd"}, Case{"resnet18", "sgd"},
                                           Case{"vgg11", "sgd"}, Case{"gpt", "sgd"}, Case{"gpt", "adam"},
                                           Case{"gpt2", "sgd"}, Case{"lstm", "sgd"}, Case{"gru", "sgd"},
                                           Case{"transformer", "sgd"}),
                         [](const auto& info) { return std::string(info.param.net) + "_" + info.param.rule; });

// Mixed precision: f32 weights, products and what lies between them in 16 bits.
class CudaMixedPrecision : public ::testing::TestWithParam<Case> {};

TEST_P(CudaMixedPrecision, FiveStepsOfItLoseAsMuchAsInF32OnTheCpu) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  const auto want = Trained(GetParam().net, GetParam().rule, kCpu).losses(5);
  for (const Precision precision : {Precision::bf16, Precision::f16}) {
    const auto got = Trained(GetParam().net, GetParam().rule, kGpu, precision).losses(5);
    default_generator().to(kCpu);
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(got[i], want[i], 2e-2 * std::max(1.0, std::abs(want[i])))
          << "step " << i << " in " << to_string(precision);
    EXPECT_NE(got.front(), got.back()) << "nothing was learnt";
  }
}

INSTANTIATE_TEST_SUITE_P(Of, CudaMixedPrecision,
                         ::testing::Values(Case{"lenet", "sgd"}, Case{"alexnet", "sgd"}, Case{"alexnet_owt", "sgd"},
                                           Case{"vgg11", "sgd"}, Case{"gpt", "adam"}, Case{"gpt2", "sgd"},
                                           Case{"lstm", "sgd"}, Case{"transformer", "sgd"}),
                         [](const auto& info) { return std::string(info.param.net) + "_" + info.param.rule; });

// Batch norm over a handful of values doubles every rounding in a few steps: these nets are compared where that has not
// begun.
class CudaNets : public ::testing::TestWithParam<const char*> {};

TEST_P(CudaNets, BeginAsOnTheCpuAndLearn) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  const auto want = Trained(GetParam(), "sgd", kCpu).losses(1);
  const auto got = Trained(GetParam(), "sgd", kGpu).losses(10);
  default_generator().to(kCpu);
  EXPECT_NEAR(got[0], want[0], 3e-3 * std::abs(want[0]));
  EXPECT_LT(got.back(), got.front());
}

TEST_P(CudaNets, BeginInBf16AsOnTheCpuAndLearn) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  const auto want = Trained(GetParam(), "sgd", kCpu).losses(1);
  const auto got = Trained(GetParam(), "sgd", kGpu, Precision::bf16).losses(10);
  default_generator().to(kCpu);
  EXPECT_NEAR(got[0], want[0], 3e-2 * std::abs(want[0]));
  EXPECT_LT(got.back(), got.front());
}

INSTANTIATE_TEST_SUITE_P(Of, CudaNets, ::testing::Values("googlenet", "mobilenet_v2", "vgg11_bn", "resnet50"),
                         [](const auto& info) { return std::string(info.param); });

// Weights after a few steps, made twice from the same seed.
class CudaRepeats : public ::testing::TestWithParam<const char*> {};

TEST_P(CudaRepeats, TwoRunsHaveTheSameBits) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "no GPU here";
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    std::vector<std::vector<double>> losses, weights;
    for (int run = 0; run < 2; ++run) {
      Trained trained(GetParam(), "sgd", kGpu, precision);
      losses.push_back(trained.losses(5));
      weights.emplace_back();
      for (const Tensor& parameter : trained.net->parameters()) {
        const auto values = parameter.to_vector();
        weights.back().insert(weights.back().end(), values.begin(), values.end());
      }
      default_generator().to(kCpu);
    }
    EXPECT_EQ(losses[0], losses[1]) << to_string(precision);
    EXPECT_TRUE(weights[0] == weights[1]) << "weights differ in " << to_string(precision);
  }
}

INSTANTIATE_TEST_SUITE_P(Of, CudaRepeats,
                         ::testing::Values("lenet", "alexnet_owt", "resnet18", "resnet50", "gpt", "lstm"),
                         [](const auto& info) { return std::string(info.param); });

// Between two spans of steps more is asked for than any GPU has.
TEST_F(OnGpu, TrainingGoesOnAfterMemoryRanOut) {
  Trained undisturbed("lenet", "sgd", kGpu);
  default_generator().to(kCpu);  // where both nets draw their weights
  Trained disturbed("lenet", "sgd", kGpu);
  const auto want = undisturbed.losses(3), later = undisturbed.losses(3);
  EXPECT_EQ(disturbed.losses(3), want);
  EXPECT_THROW(empty({std::int64_t{1} << 40}, DType::f32, kGpu), OutOfMemory);
  EXPECT_EQ(disturbed.losses(3), later);
  default_generator().to(kCpu);
}

// A program with a call that no kernel takes is refused when it is compiled, by the op's name.
TEST_F(OnGpu, ACallWithoutAKernelIsNamedWhenItIsCompiled) {
  auto f = compile([](const Tensor& x) { return matmul(x, x); });
  try {
    f(zeros({3, 3}, DType::i64, kGpu));
    FAIL() << "it ran";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("[matmul] expected a kernel"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace starling::testing
