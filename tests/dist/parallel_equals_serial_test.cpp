// P ranks of b rows each against one of P · b rows, also with rows that P ranks cannot split evenly.
#include <gtest/gtest.h>

#include "dist/parallel_nets.h"
#include "dist/shared_worlds.h"

namespace starling::dist {
namespace {

using namespace parallel_nets;

CompileOptions over(int ranks) { return {.strategy = data_parallel({.workers = ranks, .threads_per_worker = 1})}; }

double gradients_apart(const Net& net, int ranks, std::int64_t rows, DType dtype, Norm norm = Norm::global) {
  Step one(net, rows, dtype, Norm::local), many(net, rows, dtype, norm);
  CompiledFunction single([&](std::span<const Tensor> in) { return one.gradients_of(in); }, {});
  CompiledFunction parallel([&](std::span<const Tensor> in) { return many.gradients_of(in); }, over(ranks));
  return distance(parallel.call(many.fields()), single.call(one.fields()));
}

// Largest |difference| of the losses over twenty steps.
double losses_apart(const Net& net, int ranks, std::int64_t rows, Norm norm = Norm::global) {
  Step one(net, rows, DType::f32, Norm::local), many(net, rows, DType::f32, norm);
  CompiledFunction single([&](std::span<const Tensor> in) { return TensorList{one.step(in)}; }, {});
  CompiledFunction parallel([&](std::span<const Tensor> in) { return TensorList{many.step(in)}; }, over(ranks));
  double worst = 0;
  for (int i = 0; i < 20; ++i)
    worst = std::max(worst, std::abs(single.call(one.fields())[0].item() - parallel.call(many.fields())[0].item()));
  return worst;
}

class ParallelNet : public ::testing::TestWithParam<Net> {};

TEST_P(ParallelNet, HasTheGradientsOfOneRankInF32) { EXPECT_LE(gradients_apart(GetParam(), 2, 8, DType::f32), 1e-5); }

TEST_P(ParallelNet, HasTheGradientsOfOneRankInF64) { EXPECT_LE(gradients_apart(GetParam(), 2, 8, DType::f64), 1e-12); }

TEST_P(ParallelNet, WeighsUnevenRanksRight) {
  EXPECT_LE(gradients_apart(GetParam(), 3, 7, DType::f64), 1e-12);
  EXPECT_LE(gradients_apart(GetParam(), 3, 7, DType::f32), 1e-5);
}

TEST_P(ParallelNet, TakesRanksWithoutRows) {
  EXPECT_LE(gradients_apart(GetParam(), 4, 3, DType::f64), 1e-12);
  EXPECT_LE(gradients_apart(GetParam(), 4, 3, DType::f32), 1e-5);
}

TEST_P(ParallelNet, FollowsOneRankOverTwentySteps) { EXPECT_LE(losses_apart(GetParam(), 2, 6), 1e-3); }

INSTANTIATE_TEST_SUITE_P(Zoo, ParallelNet, ::testing::ValuesIn(kNets),
                         [](const auto& info) { return std::string(info.param.name); });

// Ranks with separate networks, as in jobs; over Gloo and MPI by law_processes/rank.cpp.
TEST_P(ParallelNet, TrainedByRanksInSeparateTrainersEqualsOneRank) {
  run_ranks(checking_backend().make(2), [](Comm& comm) { expect_like_one(comm, GetParam()); });
}

// Control: with per-rank batch statistics the equality does not hold.
TEST(ParallelNet, WithLocalBatchNormIsAnotherNet) {
  EXPECT_GT(gradients_apart(kNets[2], 2, 8, DType::f64, Norm::local), 1e-3);
  EXPECT_GT(losses_apart(kNets[2], 2, 6, Norm::local), 1e-3);
}

TEST(ParallelNet, WithLocalBatchNormTakesRanksWithoutRows) {
  EXPECT_TRUE(std::isfinite(gradients_apart(kNets[2], 4, 3, DType::f64, Norm::local)));
}

}  // namespace
}  // namespace starling::dist
