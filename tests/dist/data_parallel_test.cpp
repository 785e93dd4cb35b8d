#include "starling/dist/strategy/data_parallel.h"

#include <gtest/gtest.h>

#include "runtime/step_testing.h"
#include "starling/dist/comm/faulty/faulty_comm.h"
#include "starling/train/run/weights_hash.h"

namespace starling::dist {
namespace {

using testing::Bench;
using testing::relative_l2;

class DataParallelNet : public ::testing::TestWithParam<const char*> {};

// Compares ranks of b rows each with one of all rows.
void expect_same_gradients(const char* name, DType dtype, double tolerance, int workers, std::int64_t batch) {
  Bench one(name, batch, dtype), many(name, batch, dtype);
  auto single = compile([&](const Tensor& x, const Tensor& y) { return one.gradients_of(x, y); });
  auto parallel = compile([&](const Tensor& x, const Tensor& y) { return many.gradients_of(x, y); },
                          {.strategy = data_parallel({.workers = workers})});
  const TensorList expected = single(one.x, one.y), got = parallel(many.x, many.y);
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i)
    EXPECT_LE(relative_l2(got[i], expected[i]), tolerance) << "gradient " << i;
}

TEST_P(DataParallelNet, TwoRanksHaveTheGradientsOfOneInF32) {
  expect_same_gradients(GetParam(), DType::f32, 1e-5, 2, 16);
}
TEST_P(DataParallelNet, TwoRanksHaveTheGradientsOfOneInF64) {
  expect_same_gradients(GetParam(), DType::f64, 1e-12, 2, 16);
}
TEST_P(DataParallelNet, UnevenBatchesAreWeighedRight) { expect_same_gradients(GetParam(), DType::f64, 1e-12, 3, 7); }

INSTANTIATE_TEST_SUITE_P(Zoo, DataParallelNet, ::testing::Values("mlp", "sae_small", "lenet"));

TEST(DataParallel, MoreRanksThanRowsWork) { expect_same_gradients("mlp", DType::f64, 1e-12, 4, 3); }

TEST(DataParallel, InsertsOneReductionPerGradientAndOneForTheLoss) {
  Bench bench("mlp", 8, DType::f32);
  auto step = compile([&](const Tensor& x, const Tensor& y) { return bench.step(x, y); },
                      {.disable = {"buckets", "shared_updates"}, .strategy = data_parallel({.workers = 2})});
  step(bench.x, bench.y);
  int reductions = 0;
  for (const auto& node : step.graph().nodes()) reductions += is_op(node, "all_reduce");
  EXPECT_EQ(reductions, 6 + 1);
}

TEST(DataParallel, JoinsOutputsThatAreSplit) {
  Bench bench("mlp", 5, DType::f32);
  auto forward = compile([&](const Tensor& x) { return bench.net(x); }, {.strategy = data_parallel({.workers = 2})});
  auto plain = compile([&](const Tensor& x) { return bench.net(x); });
  EXPECT_LE(relative_l2(forward(bench.x), plain(bench.x)), 1e-6);
}

TEST(DataParallel, DropsTheSameElementsOnAnyNumberOfRanks) {
  const Tensor x = from_doubles(std::vector<double>(10 * 7, 1.0), {10, 7});
  std::vector<std::vector<double>> results;
  for (int workers : {1, 2, 3}) {
    manual_seed(5);
    auto f =
        compile([](const Tensor& t) { return dropout(t, 0.5); }, {.strategy = data_parallel({.workers = workers})});
    results.push_back(f(x).to_vector());
  }
  EXPECT_EQ(results[0], results[1]);
  EXPECT_EQ(results[0], results[2]);
}

TEST(DataParallel, SeesVariablesThatWereWrittenBetweenSteps) {
  Bench a("mlp", 8, DType::f64), b("mlp", 8, DType::f64);
  auto one = compile([&](const Tensor& x, const Tensor& y) { return a.step(x, y); });
  auto two = compile([&](const Tensor& x, const Tensor& y) { return b.step(x, y); },
                     {.strategy = data_parallel({.workers = 2})});
  for (int i = 0; i < 4; ++i) {
    if (i == 2) {
      a.opt.set_lr(0.5);
      b.opt.set_lr(0.5);
    }
    EXPECT_NEAR(one(a.x, a.y).item(), two(b.x, b.y).item(), 1e-10) << "step " << i;
  }
}

std::string hash_after(int workers, int steps, const std::string& order) {
  Bench bench("lenet", 24, DType::f32);
  auto step = compile([&](const Tensor& x, const Tensor& y) { return bench.step(x, y); },
                      {.strategy = data_parallel({.workers = workers, .deterministic = true, .shard_order = order})});
  for (int i = 0; i < steps; ++i) step(bench.x, bench.y);
  std::vector<NamedTensor> weights;
  for (const auto& [name, tensor] : bench.net.named_parameters()) weights.push_back({name, tensor});
  return train::weights_hash(weights);
}

TEST(Deterministic, OneTwoAndThreeWorkersEndWithOneHash) {
  const std::string one = hash_after(1, 3, "shard");
  EXPECT_EQ(hash_after(2, 3, "shard"), one);
  EXPECT_EQ(hash_after(3, 3, "shard"), one);
}

TEST(Deterministic, ControlWithoutFixedShardOrderDiffers) {
  EXPECT_NE(hash_after(2, 3, "tree"), hash_after(3, 3, "tree"));
}

TEST(Deterministic, RefusesMoreWorkersThanShards) {
  EXPECT_THROW(data_parallel({.workers = 13, .deterministic = true, .shards = 12}), Error);
}

TEST(DataParallel, AFailingRankIsNamed) {
  Bench bench("mlp", 8, DType::f32);
  auto step =
      compile([&](const Tensor& x, const Tensor& y) { return bench.step(x, y); },
              {.strategy = data_parallel({.workers = 2, .decorate = [](std::unique_ptr<Comm> comm) {
                                            const bool bad = comm->rank() == 1;
                                            return make_faulty(std::move(comm), FaultPlan{.fail_at = bad ? 3u : 0u});
                                          }})});
  try {
    for (int i = 0; i < 3; ++i) step(bench.x, bench.y);
    FAIL() << "expected an error";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("rank"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace starling::dist
