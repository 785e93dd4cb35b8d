#include "starling/dist/ps/vectors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "dist/ps/ps_testing.h"
#include "starling/dist/ps/shard.h"

namespace starling::dist::ps {
namespace {

Tensor doubles(const std::vector<double>& values) {
  return from_doubles(values, {static_cast<std::int64_t>(values.size())}, DType::f64);
}

TEST(PsShardVectors, ZeroLeavesNothingOfWhatWasThere) {
  const ServedTensor tensor{.name = "w", .type = {DType::f64, {3}}};
  Shard shard(tensor, tensor.type, {});
  shard.put(share(doubles({1, 2, 3})));
  const double nan = std::numeric_limits<double>::quiet_NaN(), inf = std::numeric_limits<double>::infinity();
  EXPECT_TRUE(shard.add_portion(1, 0, {.values = share(doubles({nan, inf, -inf}))}));
  shard.command(VectorOp::zero, 1, 1, 0);
  EXPECT_EQ(shard.command(VectorOp::sum_abs, 1, 1, 0), 0) << "0 times what is not finite would not be";
}

// A slow worker's copy of a portion may come when the next round has begun: its gradient is of other weights.
TEST(PsShardVectors, PortionsOfTheRoundBeforeAreRefused) {
  const ServedTensor tensor{.name = "w", .type = {DType::f64, {3}}};
  Shard shard(tensor, tensor.type, {});
  shard.put(share(doubles({1, 2, 3})));
  const Tensor one = doubles({1, 1, 1});
  const auto add = [&](std::int64_t portion) { return shard.add_portion(1, portion, {.values = share(one)}); };
  shard.command(VectorOp::zero, 1, 1, 0);
  EXPECT_TRUE(add(0));
  EXPECT_FALSE(add(0));
  shard.command(VectorOp::zero, 1, 1, 2);
  EXPECT_FALSE(add(0)) << "counted in its own round";
  EXPECT_FALSE(add(1)) << "never counted, and too late";
  EXPECT_TRUE(add(2));
  EXPECT_EQ(shard.command(VectorOp::sum_abs, 1, 1, 0), 3);
  shard.command(VectorOp::zero, 1, 1, 0);
  EXPECT_TRUE(add(0)) << "control: a round that names no first portion takes any";
  shard.command(VectorOp::zero, 1, 1, 7);
  shard.put(share(doubles({1, 2, 3})));
  EXPECT_TRUE(add(0)) << "another run counts from 0 again";
}

TEST(PsVectorParts, ThePseudoGradientIsTheSlopeOfTheSmallestWayDown) {
  const Tensor weights = doubles({2, -2, 0, 0, 0, 0}), gradient = doubles({0.5, 0.5, 3, -3, 0.5, -0.5});
  const Tensor found = doubles({9, 9, 9, 9, 9, 9});
  vector_pseudo_gradient(found, 1, weights, gradient);
  EXPECT_EQ(found.to_vector(), (std::vector<double>{1.5, -0.5, 2, -2, 0, 0}));
}

TEST(PsVectorParts, ProjectsOnAnOrthantWhoseZerosAreChosen) {
  const Tensor orthant = doubles({1, 0, 0, -4, 0});
  vector_fill_zeros(orthant, doubles({-7, 5, -6, 8, 0}));
  EXPECT_EQ(orthant.to_vector(), (std::vector<double>{1, 5, -6, -4, 0}));
  const Tensor moved = doubles({2, -1, -1, 3, 1});
  vector_project_orthant(moved, orthant);
  EXPECT_EQ(moved.to_vector(), (std::vector<double>{2, 0, -1, 0, 0}));
}

}  // namespace
}  // namespace starling::dist::ps
