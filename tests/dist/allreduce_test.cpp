#include "starling/dist/strategy/allreduce.h"

#include <gtest/gtest.h>

#include "dist/shared_worlds.h"
#include "dist/strategy_testing.h"
#include "runtime/step_testing.h"
#include "starling/data/loading/loader.h"
#include "starling/dist/strategy/strategy_kinds.h"

namespace starling::dist {
namespace {

using testing::Bench;
using testing::borrowed;
using testing::counter;
using testing::relative_l2;
using testing::rows_of_tensor;
using testing::SmallTrainer;

// Every rank has its own network and gets its rows only.
void expect_gradients_of_one(const char* net, int world, std::int64_t batch, double tolerance) {
  Bench alone(net, batch, DType::f64);
  auto single = compile([&](const Tensor& x, const Tensor& y) { return alone.gradients_of(x, y); });
  const TensorList expected = single(alone.x, alone.y);
  run_ranks(checking_backend().make(world), [&](Comm& comm) {
    Bench bench(net, batch, DType::f64);
    const auto strategy = allreduce(borrowed(comm));
    auto program = compile([&](const Tensor& x, const Tensor& y) { return bench.gradients_of(x, y); },
                           {.threads = 1, .strategy = strategy});
    const Piece own = strategy->rows(batch);
    const Tensor fields[] = {rows_of_tensor(bench.x, own), rows_of_tensor(bench.y, own)};
    const TensorList got = program.call(fields, GlobalRows{batch});
    ASSERT_EQ(got.size(), expected.size());
    for (std::size_t i = 0; i < got.size(); ++i)
      EXPECT_LE(relative_l2(got[i], expected[i]), tolerance) << "gradient " << i << " of rank " << comm.rank();
  });
}

TEST(AllReduce, RanksWithTheirRowsHaveTheGradientsOfOneWithAll) { expect_gradients_of_one("mlp", 2, 16, 1e-12); }
TEST(AllReduce, UnevenRowsAreWeighedRight) { expect_gradients_of_one("mlp", 3, 7, 1e-12); }
TEST(AllReduce, RanksWithoutRowsMakeTheSameCalls) { expect_gradients_of_one("mlp", 4, 2, 1e-12); }
TEST(AllReduce, ConvolutionalNetworksHaveTheGradientsOfOneRank) { expect_gradients_of_one("lenet", 2, 5, 1e-12); }

// Without a trainer nobody gives ranks the weights of rank 0: each may have drawn its own.
TEST(AllReduce, RanksThatBeginWithDifferentWeightsAreNamed) {
  const auto errors = errors_of(checking_backend().make(3), [](Comm& comm) {
    Bench bench("mlp", 6, DType::f32);
    if (comm.rank() == 1) bench.net.parameters().front().data<float>()[0] += 1;
    const auto strategy = allreduce(borrowed(comm));
    auto program = compile([&](const Tensor& x, const Tensor& y) { return bench.gradients_of(x, y); },
                           {.threads = 1, .strategy = strategy});
    const Piece own = strategy->rows(6);
    const Tensor fields[] = {rows_of_tensor(bench.x, own), rows_of_tensor(bench.y, own)};
    program.call(fields, GlobalRows{6});
  });
  for (const std::string& error : errors) {
    EXPECT_TRUE(contains(error, "[allreduce] expected all ranks to begin with the same weights")) << error;
    EXPECT_TRUE(contains(error, "rank 1 differs from the others")) << error;
  }
}

TEST(AllReduce, ResultsThatAreSplitComeBackAsThisRanksRows) {
  run_ranks(make_thread_comms(3), [&](Comm& comm) {
    const auto strategy = allreduce(borrowed(comm));
    auto program = compile(
        [](const Tensor& x) {
          return TensorList{mul(x, 2.0), sum(x)};
        },
        {.threads = 1, .strategy = strategy});
    const Tensor all = from_doubles(std::vector<double>{1, 2, 3, 4, 5, 6, 7}, {7});
    const Piece own = strategy->rows(7);
    const Tensor mine = rows_of_tensor(all, own);
    const TensorList got = program.call({&mine, 1}, GlobalRows{7});
    ASSERT_EQ(got[0].size(0), own.size);
    for (std::int64_t i = 0; i < own.size; ++i)
      EXPECT_EQ(got[0].to_vector()[static_cast<std::size_t>(i)], 2.0 * static_cast<double>(own.begin + i + 1));
    EXPECT_EQ(got[1].item(), 28);
  });
}

TEST(AllReduce, BatchesOfEqualLocalRowsAreStillDifferentPrograms) {
  run_ranks(make_thread_comms(2), [&](Comm& comm) {
    const auto strategy = allreduce(borrowed(comm));
    auto program = compile([](const Tensor& x) { return mean(x); }, {.threads = 1, .strategy = strategy});
    const std::vector<double> ones{1, 1, 1};
    for (const std::int64_t n : {4, 5, 4}) {
      const Tensor mine =
          from_doubles({ones.data(), static_cast<std::size_t>(strategy->rows(n).size)}, {strategy->rows(n).size});
      EXPECT_EQ(program.call({&mine, 1}, GlobalRows{n})[0].item(), 1);
    }
    EXPECT_EQ(program.programs(), 2u);
  });
}

TEST(AllReduce, SaysWhichRowsItExpected) {
  const auto comms = make_thread_comms(2);
  const auto errors = errors_of(comms, [&](Comm& comm) {
    auto program =
        compile([](const Tensor& x) { return mean(x); }, {.threads = 1, .strategy = allreduce(borrowed(comm))});
    const Tensor mine = zeros({3});
    program.call({&mine, 1}, GlobalRows{4});
  });
  EXPECT_TRUE(contains(errors[1], "argument 0 of rank 1 of 2 to be its rows, f32[2], got f32[3]"));
}

TEST(AllReduce, ProgramsOfOneRankRefuseRowsOfARank) {
  auto program = compile([](const Tensor& x) { return mean(x); });
  const Tensor mine = zeros({3});
  EXPECT_THROW(program.call({&mine, 1}, GlobalRows{6}), Error);
  EXPECT_THROW(program.call({&mine, 1}, GlobalRows{-1}), Error);
}

TEST(AllReduce, TwentyStepsEndWhereOneProcessEnds) {
  const optim::SgdOptions sgd{.lr = 0.1, .momentum = 0.9};
  const SmallTrainer one = testing::trained_alone(20, 7, sgd);
  std::string hash;
  testing::train_world(
      wrap(make_thread_comms(3), make_checking), [](auto comm) { return allreduce(std::move(comm)); }, 20, 7, sgd,
      [&](SmallTrainer& trainer) {
        EXPECT_LE(testing::largest_difference(trainer.w, one.w), 1e-12);
        if (hash.empty()) hash = trainer.hash();
        EXPECT_EQ(trainer.hash(), hash);
        EXPECT_EQ(counter(*trainer.strategy, "steps"), 20);
        EXPECT_EQ(counter(*trainer.strategy, "samples"), 140);
        EXPECT_GT(counter(*trainer.strategy, "reduced_bytes_sent"), 0);
      });
}

// Number and placement of exchanges for a strategy's options.
struct Exchanges {
  int count = 0, in_their_lane = 0;
  std::string hash;
};
Exchanges exchanges_with(const AllReduceOptions& options) {
  Exchanges found;
  run_ranks(make_thread_comms(2), [&](Comm& comm) {
    SmallTrainer trainer(allreduce(borrowed(comm), options), {.lr = 0.1});
    Profiler profiler;
    trainer.whole().set_profiler(&profiler);
    trainer.step(testing::random_batch(6, 1));
    if (comm.rank() > 0) return;
    for (const auto& event : profiler.events())
      found.in_their_lane += event.lane == static_cast<int>(graph::Lane::comm);
    for (const auto& node : trainer.whole().graph().nodes()) found.count += node.op->comm ? 1 : 0;
    found.hash = trainer.hash();
  });
  return found;
}

TEST(AllReduce, OverlapAndBucketsAreItsOptionsAndChangeNoBits) {
  const Exchanges usual = exchanges_with({}), exposed = exchanges_with({.overlap = false}),
                  separate = exchanges_with({.bucket_mb = 0});
  EXPECT_EQ(usual.in_their_lane, usual.count);
  EXPECT_EQ(exposed.in_their_lane, 0);
  EXPECT_EQ(exposed.count, usual.count);
  EXPECT_GT(separate.count, usual.count);
  EXPECT_EQ(exposed.hash, usual.hash);
  EXPECT_EQ(separate.hash, usual.hash);
}

// Gradients are in memory that other ranks can read, if the backend has such memory.
TEST(AllReduce, ProgramsLieInTheArenaOfTheCommunicator) {
  EXPECT_EQ(make_thread_comms(1)[0]->arena(), nullptr);
  const optim::SgdOptions sgd{.lr = 0.1, .momentum = 0.9};
  const SmallTrainer one = testing::trained_alone(5, 7, sgd);
  testing::train_world(
      shared_comms(2), [](auto comm) { return allreduce(std::move(comm)); }, 5, 7, sgd,
      [&](SmallTrainer& trainer) {
        EXPECT_LE(testing::largest_difference(trainer.w, one.w), 1e-12);
        EXPECT_GT(trainer.strategy->comm().arena()->stats().live_bytes, 0);
      });
}

// Ranks start with different weights (train_world seeds them by rank) and must not keep them.
TEST(RankStrategy, BeginGivesAllRanksRankZerosValuesInOneMessageADtype) {
  const auto comms = make_thread_comms(3);
  std::vector<std::string> hashes(3);
  run_ranks(comms, [&](Comm& comm) {
    SmallTrainer trainer(allreduce(borrowed(comm)), {.lr = 0.1 * (comm.rank() + 1)}, 3 + comm.rank());
    hashes[static_cast<std::size_t>(comm.rank())] = trainer.hash();
    EXPECT_NEAR(trainer.optimizer.lr(), 0.1, 1e-7);
    EXPECT_EQ(comm.journal().counters(CommOp::broadcast).calls, 1u);  // weights, state and rate are f64
  });
  EXPECT_EQ(hashes[0], hashes[1]);
  EXPECT_EQ(hashes[0], hashes[2]);
}

std::string hash_with(int world, const std::string& order) {
  std::string hash;
  run_ranks(make_thread_comms(world), [&](Comm& comm) {
    Bench bench("lenet", 24, DType::f32);
    const auto strategy = allreduce(borrowed(comm), {.deterministic = true, .shard_order = order});
    auto step = compile([&](const Tensor& x, const Tensor& y) { return bench.step(x, y); }, {.strategy = strategy});
    const Piece own = strategy->rows(24);
    const Tensor fields[] = {rows_of_tensor(bench.x, own), rows_of_tensor(bench.y, own)};
    for (int i = 0; i < 2; ++i) step.call(fields, GlobalRows{24});
    std::vector<NamedTensor> weights;
    for (const auto& [name, tensor] : bench.net.named_parameters()) weights.push_back({name, tensor});
    if (comm.rank() == 0) hash = train::weights_hash(weights);
  });
  return hash;
}

TEST(AllReduceDeterministic, OneToFiveRanksEndWithOneHash) {
  const std::string one = hash_with(1, "shard");
  for (const int world : {2, 3, 5}) EXPECT_EQ(hash_with(world, "shard"), one) << world << " ranks";
}

TEST(AllReduceDeterministic, ControlWithoutFixedShardOrderDiffers) {
  EXPECT_NE(hash_with(2, "tree"), hash_with(3, "tree"));
}

class Numbers final : public Dataset {
 public:
  std::int64_t size() const override { return 23; }
  std::vector<TensorType> fields() const override { return {{DType::i64, {}}}; }
  void gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const override {
    std::copy(rows.begin(), rows.end(), out[0].data<std::int64_t>());
  }
};

// 5 ranks share 12 shards as 2, 2, 3, 2, 3: a cut of the rows in five would give others.
TEST(AllReduceDeterministic, LoadersCutBatchesAsTheProgramExpects) {
  run_ranks(make_thread_comms(5), [&](Comm& comm) {
    const auto strategy = allreduce(borrowed(comm), {.deterministic = true});
    LoaderOptions options{.batch = 10, .shuffle = false, .rank = comm.rank(), .ranks = 5};
    options.shards = strategy->shards();
    options.groups = strategy->groups();
    Loader loader(std::make_shared<Numbers>(), options);
    std::int64_t before = 0;
    for (const std::int64_t total : {10, 10, 3}) {
      const Batch* batch = loader.next();
      ASSERT_NE(batch, nullptr);
      const Piece own = strategy->rows(total);
      ASSERT_EQ(batch->fields[0].size(0), own.size) << "rank " << comm.rank();
      for (std::int64_t i = 0; i < own.size; ++i)
        EXPECT_EQ(batch->fields[0].data<std::int64_t>()[i], before + own.begin + i);
      before += total;
    }
  });
}

TEST(AllReduceDeterministic, RefusesMoreRanksThanShards) {
  run_ranks(make_thread_comms(3),
            [&](Comm& comm) { EXPECT_THROW(allreduce(borrowed(comm), {.deterministic = true, .shards = 2}), Error); });
}

TEST(StrategyKinds, MakesStrategiesByTheNamesOfJobs) {
  run_ranks(make_thread_comms(2), [&](Comm& comm) {
    const auto chosen = strategy_kinds().by_name("allreduce");
    EXPECT_EQ(chosen.make()(borrowed(comm))->name(), "allreduce(2 ranks)");
  });
  EXPECT_THROW(strategy_kinds().by_name("allreduced"), Error);
}

}  // namespace
}  // namespace starling::dist
