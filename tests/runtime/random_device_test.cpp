#include <gtest/gtest.h>

#include "starling/starling.h"

namespace starling::testing {
namespace {

const Device kOther{DeviceKind::cpu, 1};

class RandomDevice : public ::testing::Test {
 protected:
  void SetUp() override { manual_seed(11); }
  void TearDown() override { default_generator().to(kCpu); }
};

Tensor ones_on(Device device) { return to(ones({64}), device); }

TEST_F(RandomDevice, ACompiledFunctionDrawsWhereItsOperandsAre) {
  auto drop = compile([](const Tensor& x) {
    const Tensor y = dropout(x, 0.5);
    default_generator().next_step();
    return y;
  });
  std::vector<std::vector<double>> here, there, mixed;
  for (int i = 0; i < 4; ++i) here.push_back(drop(ones_on(kCpu)).to_vector());
  manual_seed(11);
  for (int i = 0; i < 4; ++i) there.push_back(to(drop(ones_on(kOther)), kCpu).to_vector());
  manual_seed(11);
  for (int i = 0; i < 4; ++i) mixed.push_back(to(drop(ones_on(i % 2 == 0 ? kCpu : kOther)), kCpu).to_vector());
  EXPECT_EQ(here, there);
  EXPECT_EQ(here, mixed) << "one key goes from device to device, and no step is lost";
  EXPECT_NE(here[0], here[1]) << "control: steps draw other numbers";
  EXPECT_EQ(drop.programs(), 2U) << "one for each device, whatever the order of calls";
}

TEST_F(RandomDevice, DrawsWithoutOperandsStayWhereTheGeneratorWasPut) {
  auto drop = compile([](const Tensor& x) { return dropout(x, 0.5); });
  drop(ones_on(kOther));
  EXPECT_EQ(default_generator().key().device(), kOther);
  EXPECT_EQ(normal({3}).device(), kCpu);
  EXPECT_EQ(dropout(ones_on(kOther), 0.5).device(), kOther);
  EXPECT_EQ(dropout(ones_on(kCpu), 0.5).device(), kCpu);
  default_generator().to(kOther);
  EXPECT_EQ(normal({3}).device(), kOther);
}

TEST_F(RandomDevice, EagerCodeDrawsTheSameNumbersOnEveryDevice) {
  const std::vector<double> here = dropout(ones_on(kCpu), 0.5).to_vector();
  manual_seed(11);
  const std::vector<double> there = to(dropout(ones_on(kOther), 0.5), kCpu).to_vector();
  EXPECT_EQ(here, there);
}

TEST_F(RandomDevice, ANetworkTrainsWhereverItWasBroughtTo) {
  nn::Linear net({.in = 8, .out = 2});
  net.to(kOther);
  optim::Sgd optimizer(net.parameters(), {.lr = 0.1});
  auto step = compile([&](const Tensor& x, const Tensor& y) {
    const Tensor loss = cross_entropy(net(dropout(x, 0.1)), y);
    loss.backward();
    optimizer.step();
    return loss;
  });
  const Tensor x = to(normal({16, 8}), kOther), y = to(randint({16}, {.high = 2}), kOther);
  const double first = to(step(x, y), kCpu).item();
  double last = first;
  for (int i = 0; i < 20; ++i) last = to(step(x, y), kCpu).item();
  EXPECT_LT(last, first);
  const std::int64_t* key = to(default_generator().key(), kCpu).data<std::int64_t>();
  EXPECT_EQ(key[1], 21) << "every step of the optimizer advances the key";
}

}  // namespace
}  // namespace starling::testing
