#include "starling/dist/strategy/emso.h"

#include <gtest/gtest.h>

#include "dist/strategy_testing.h"
#include "starling/dist/strategy/grouped.h"

namespace starling::dist {
namespace {

constexpr double kLr = 0.1, kCurve = 2;

// Rank r's f is kCurve/2 · (w - b)² with b = 1 + 4r, from w = 3 on; the weight after one step of the trainer.
double after_a_step(int ranks, const EmsoOptions& options, double* loss = nullptr) {
  double seen = 0;
  run_ranks(make_thread_comms(ranks), [&](Comm& comm) {
    Tensor w = full({1}, 3.0, DType::f64);
    w.set_name("w").set_requires_grad();
    optim::Sgd sgd({w}, {.lr = kLr});
    const auto strategy = std::make_shared<Emso>(testing::borrowed(comm), options);
    strategy->begin({.weights = {{"w", w}}, .rule = &sgd});
    CompiledFunction step(
        [&](std::span<const Tensor> in) -> TensorList {
          const Tensor away = sub(w, in[0]);
          Tensor value = sum(mul(mul(away, away), kCurve / 2));
          value.backward();
          sgd.step();
          return {value.detach()};
        },
        CompileOptions{.threads = 1, .strategy = strategy});
    const Tensor b = full({1}, 1.0 + 4.0 * comm.rank(), DType::f64);
    const TensorList out = step.call({&b, 1});
    strategy->after_update(0, 1);
    EXPECT_EQ(testing::counter(*strategy, "inner_steps"), static_cast<double>(options.inner));
    if (comm.rank() > 0) return;
    seen = w.item();
    if (loss != nullptr) *loss = out[0].item();
  });
  return seen;
}

// argmin kCurve/2 · (w - b)² + γ/2 · (w - 3)².
double closed_form(double b, double gamma) { return (kCurve * b + gamma * 3) / (kCurve + gamma); }

TEST(Emso, ManyInnerStepsSolveTheProblemOfAMinibatch) {
  for (const double gamma : {0.0, 0.5, 4.0}) {
    EXPECT_NEAR(after_a_step(1, {.inner = 400, .gamma = gamma}), closed_form(1, gamma), 1e-9) << gamma;
    const double mean = (closed_form(1, gamma) + closed_form(5, gamma)) / 2;
    EXPECT_NEAR(after_a_step(2, {.inner = 400, .gamma = gamma}), mean, 1e-9) << gamma;
  }
}

TEST(Emso, EachInnerStepIsADescentAndTheExactProximalStep) {
  const double gamma = 4;
  double w = 3;
  for (int i = 0; i < 3; ++i) w = (w - kLr * kCurve * (w - 1) + kLr * gamma * 3) / (1 + kLr * gamma);
  EXPECT_NEAR(after_a_step(1, {.inner = 3, .gamma = gamma}), w, 1e-12);
}

TEST(Emso, DoesNotMoveWhereItIsTiedTooStrongly) {
  EXPECT_NEAR(after_a_step(1, {.inner = 50, .gamma = 1e12}), 3, 1e-9);
  EXPECT_LT(after_a_step(1, {.inner = 50, .gamma = 1}), 2) << "control";
}

TEST(Emso, ControlOneInnerStepIsNotTheSolution) {
  EXPECT_GT(std::abs(after_a_step(1, {.inner = 1, .gamma = 0.5}) - closed_form(1, 0.5)), 0.5);
  EXPECT_NEAR(after_a_step(1, {.inner = 1, .gamma = 0}), 3 - kLr * kCurve * (3 - 1), 1e-12) << "plain descent";
}

TEST(Emso, TellsTheLossThatAMinibatchBeganWith) {
  double loss = 0;
  after_a_step(1, {.inner = 400, .gamma = 0}, &loss);
  EXPECT_NEAR(loss, kCurve / 2 * 4, 1e-12);
}

// A batch of one row is one rank's: the first step of the other is none, and it gets the same weights.
TEST(Emso, ARankWhoseFirstStepHasNoRowsTakesTheWeightsOfTheOthers) {
  std::set<std::string> hashes;
  const auto make = [](auto comm) { return std::make_shared<Emso>(std::move(comm), EmsoOptions{.inner = 3}); };
  testing::train_world(make_thread_comms(2), make, 1, 1, {.lr = kLr}, [&](testing::SmallTrainer& trainer) {
    EXPECT_EQ(testing::counter(*trainer.strategy, "inner_steps"), 3 * trainer.strategy->rows(1).size);
    hashes.insert(trainer.hash());
  });
  EXPECT_EQ(hashes.size(), 1U);
}

// Groups run programs of their own, which make no inner steps.
TEST(Emso, RefusesGroupsWhoseStepsAreTheirOwn) {
  run_ranks(make_thread_comms(1), [&](Comm& comm) {
    const auto make = [](auto part) { return std::make_shared<Emso>(std::move(part), EmsoOptions{}); };
    testing::SmallTrainer trainer(
        std::make_shared<Grouped>(testing::borrowed(comm), Topology{}, AllReduceOptions{}, make), {.lr = kLr});
    EXPECT_THROW(trainer.step(testing::random_batch(2, 1)), Error);
  });
}

// Programs of accumulated batches leave gradients, which several runs would add up.
TEST(Emso, RefusesProgramsThatUpdateNothing) {
  run_ranks(make_thread_comms(1), [&](Comm& comm) {
    const auto strategy = std::make_shared<Emso>(testing::borrowed(comm), EmsoOptions{});
    CompiledFunction forward([](std::span<const Tensor> in) { return TensorList{mul(in[0], 2)}; },
                             CompileOptions{.strategy = strategy});
    const Tensor x = ones({2});
    EXPECT_THROW(forward.call({&x, 1}), Error);
    EXPECT_THROW(Emso(testing::borrowed(comm), {.inner = 0}), Error);
  });
}

}  // namespace
}  // namespace starling::dist
