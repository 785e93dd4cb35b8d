// Half precision with several workers: f32 gradients are exchanged, and loss scales move alike everywhere.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>

#include "starling/dist/strategy/data_parallel.h"
#include "starling/dist/strategy/local_sgd.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/loss.h"
#include "starling/train/callbacks/ready_made.h"
#include "train/ranks_testing.h"

namespace starling::train {
namespace {

using testing::points;
using testing::RankRun;
using testing::splits;

constexpr double kClose = 0.02;  // for losses around 1, rounded to 8 bits

TrainerOptions twenty_steps(Precision precision) { return {.epochs = 5, .batch = 32, .precision = precision}; }

// Losses of one process; `strategy` with workers inside it.
std::vector<double> losses_of_one(Precision precision, std::shared_ptr<runtime::Strategy> strategy = nullptr) {
  auto net = testing::small_net();
  optim::Sgd optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  TrainerOptions options = testing::quiet(twenty_steps(precision));
  options.strategy = std::move(strategy);
  Trainer trainer(net, optimizer, classify(), options);
  std::vector<double> losses;
  trainer.add(after_step([&](starling::Run& run) { losses.push_back(run.last().loss); }));
  trainer.fit(splits(points(128)));
  for (const auto& parameter : net.parameters()) EXPECT_EQ(parameter.dtype(), DType::f32);
  return losses;
}

void expect_close(const std::vector<double>& got, const std::vector<double>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], kClose) << "step " << i;
}

class HalfPrecision : public ::testing::TestWithParam<Precision> {};

TEST_P(HalfPrecision, WorkersInOneProcessHaveTheLossesOfOne) {
  const auto half = losses_of_one(GetParam(), data_parallel({.workers = 2, .threads_per_worker = 1}));
  const auto exact = losses_of_one(Precision::f32, data_parallel({.workers = 2, .threads_per_worker = 1}));
  expect_close(half, losses_of_one(GetParam()));
  EXPECT_LT(half.back(), half.front() - 0.3) << "it learns";
  EXPECT_NE(half, exact) << "control: f32 is something else";
}

TEST_P(HalfPrecision, RanksHaveTheLossesOfOne) {
  const auto alone = losses_of_one(GetParam());
  for (const int ranks : {2, 3}) {
    RankRun run{.ranks = ranks, .options = twenty_steps(GetParam()), .data = splits(points(128))};
    run.options.hash_every = 1;
    const auto all = run.run();
    for (const auto& rank : all) {
      expect_close(rank.losses, alone);
      EXPECT_EQ(rank.hash, all[0].hash);
    }
  }
}

TEST_P(HalfPrecision, HasOneHashForAnyNumberOfRanksInDeterministicMode) {
  std::set<std::string> hashes;
  for (const int ranks : {1, 2, 3}) {
    RankRun run{.ranks = ranks, .options = twenty_steps(GetParam()), .data = splits(points(128))};
    run.strategy = [](auto comm) { return allreduce(std::move(comm), {.deterministic = true, .shards = 6}); };
    hashes.insert(run.run()[0].hash);
  }
  EXPECT_EQ(hashes.size(), 1U);
}

TEST_P(HalfPrecision, LocalSgdRanksLearn) {
  RankRun run{.ranks = 2, .options = twenty_steps(GetParam()), .data = splits(points(128))};
  run.strategy = [](auto comm) { return std::make_shared<LocalSgd>(std::move(comm), LocalSgdOptions{.every = 4}); };
  const auto all = run.run();
  EXPECT_EQ(all[0].hash, all[1].hash);
  EXPECT_LT(all[0].losses.back(), all[0].losses.front() - 0.3);
}

INSTANTIATE_TEST_SUITE_P(Ranks, HalfPrecision, ::testing::Values(Precision::bf16, Precision::f16),
                         [](const auto& info) { return std::string(to_string(info.param)); });

// Losses so large that the first scales overflow: all ranks leave out the same steps and halve alike.
TEST(HalfPrecisionScales, SkipTheSameStepsOnAllRanks) {
  RankRun run{
      .ranks = 3, .options = {.epochs = 4, .batch = 16, .precision = Precision::f16}, .data = splits(points(160))};
  run.options.hash_every = 1;
  run.objective = own_objective([](nn::Module& net, std::span<const Tensor> fields) {
    const Tensor logits = net(fields[0]);
    return Objective::Outputs{.loss = mul(cross_entropy(logits, fields[1]), 1000), .prediction = logits};
  });
  run.rate = 1e-4;
  std::vector<std::vector<bool>> skipped(3);
  std::mutex mutex;
  run.callbacks = [&](Trainer& trainer, int rank) {
    trainer.add(after_step([&, rank](starling::Run& now) {
      const std::scoped_lock lock(mutex);
      skipped[static_cast<std::size_t>(rank)].push_back(now.last().skipped);
    }));
  };
  run.run();
  EXPECT_TRUE(skipped[0].front());
  EXPECT_FALSE(skipped[0].back());
  EXPECT_EQ(skipped[1], skipped[0]);
  EXPECT_EQ(skipped[2], skipped[0]);
}

}  // namespace
}  // namespace starling::train
