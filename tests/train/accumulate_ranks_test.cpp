// Several batches make one step: what ranks exchange for it, and that it is the step of one trainer.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <mutex>

#include "starling/dist/strategy/data_parallel.h"
#include "starling/train/job/job_run.h"
#include "starling/train/job/prepared_job.h"
#include "starling/train/ranks/link.h"
#include "train/ranks_testing.h"

namespace starling::train {
namespace {

using testing::points;
using testing::RankRun;
using testing::splits;

constexpr std::uint64_t kWeights = 8 * 32 + 32 + 32 * 4 + 4;  // of small_net

// All-reduces of the last step: bytes over all ranks, calls of one.
struct Exchanged {
  std::uint64_t bytes = 0, calls = 0;
};

Exchanged last_step(int ranks, std::int64_t accumulate, double clip_norm, Precision precision = Precision::f32) {
  RankRun recipe{
      .ranks = ranks,
      .options = {.epochs = 2, .batch = 16, .accumulate = accumulate, .clip_norm = clip_norm, .precision = precision},
      .data = splits(points(128))};
  recipe.options.hash_every = 0;
  std::vector<dist::OpCounters> before(static_cast<std::size_t>(ranks)), now = before;
  recipe.callbacks = [&](Trainer& trainer, int rank) {
    trainer.add(after_step([&, rank](starling::Run& run) {
      const auto own = static_cast<std::size_t>(rank);
      before[own] = std::exchange(now[own], run.link()->strategy().exchanged(CommOp::all_reduce));
    }));
  };
  recipe.run();
  Exchanged sum{.calls = now[0].calls - before[0].calls};
  for (std::size_t r = 0; r < now.size(); ++r) sum.bytes += now[r].bytes_received - before[r].bytes_received;
  return sum;
}

// Law: of a small all-reduce of n bytes each of P ranks reads those of the P-1 others. Gradients are exchanged once a
// step; batches exchange their loss and its weight, a number each.
TEST(AccumulatingRanks, ExchangeGradientsOnceAStep) {
  for (const int ranks : {2, 3}) {
    const auto words = [&](const Exchanged& step) {
      return step.bytes / static_cast<std::uint64_t>(ranks * (ranks - 1)) / 4;
    };
    const Exchanged one = last_step(ranks, 1, 0), four = last_step(ranks, 4, 0);
    const std::uint64_t scalars = words(one) - kWeights;
    EXPECT_GE(scalars, 1u);
    EXPECT_LE(scalars, 2u);
    EXPECT_EQ(words(four), kWeights + 4 * scalars) << ranks << " ranks";
    EXPECT_LE(four.calls, 1 + 4 * scalars);
    EXPECT_EQ(words(last_step(ranks, 4, 0.5)), words(four)) << "clipping needs no exchange of its own";
    EXPECT_EQ(words(last_step(ranks, 1, 0.5)), words(one)) << "clipping needs no exchange of its own";
    for (const std::int64_t accumulate : {1, 4}) {
      EXPECT_EQ(words(last_step(ranks, accumulate, 0.5, Precision::f16)), words(accumulate == 1 ? one : four))
          << "nor does a loss scale";
    }
  }
}

// Words that all-reduces of a step move in one process, over all programs and ranks: bytes of the last step of a run,
// from the difference of a run of one step more.
std::uint64_t words_of_step(std::int64_t accumulate, bool deterministic) {
  const auto moved = [&](std::int64_t steps) {
    std::mutex mutex;
    std::vector<Comm*> comms;
    auto net = testing::small_net();
    optim::Sgd optimizer(net.parameters(), {.lr = 0.1});
    TrainerOptions options = testing::quiet({.epochs = 2, .batch = 16, .accumulate = accumulate});
    options.steps = steps;
    options.strategy = data_parallel({.workers = 2,
                                      .threads_per_worker = 1,
                                      .deterministic = deterministic,
                                      .checked = false,
                                      .decorate = [&](std::unique_ptr<Comm> comm) {
                                        const std::scoped_lock lock(mutex);
                                        comms.push_back(comm.get());
                                        return comm;
                                      }});
    std::uint64_t bytes = 0;
    Trainer trainer(net, optimizer, classify(), options);
    trainer.add(after_step([&](starling::Run& run) {
      if (run.state().step != steps) return;
      for (const Comm* comm : comms) bytes += comm->journal().total().bytes_received;
    }));
    trainer.fit(splits(points(256)));
    return bytes;
  };
  return (moved(3) - moved(2)) / 2 / 4;  // of two ranks, each reads the other's
}

TEST(AccumulatingThreads, ExchangeGradientsOnceAStepToo) {
  const std::uint64_t one = words_of_step(1, false), four = words_of_step(4, false);
  EXPECT_GE(one, kWeights);
  EXPECT_LE(one, kWeights + 2);
  EXPECT_LE(four, kWeights + 4 * 2);
  EXPECT_GE(words_of_step(4, true), 4 * kWeights) << "the order of the shards wants every batch reduced";
}

// As one program does it, whatever ranks there are.
TEST(AccumulatingThreads, TrainLikeOne) {
  const auto ended = [](std::shared_ptr<runtime::Strategy> strategy) {
    auto net = testing::small_net();
    optim::Sgd optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    TrainerOptions options = testing::quiet({.epochs = 2, .batch = 13, .accumulate = 3, .clip_norm = 0.5});
    options.strategy = std::move(strategy);
    Trainer trainer(net, optimizer, classify(), options);
    trainer.fit(splits(points(103)));
    std::vector<double> weights;
    for (const auto& parameter : net.parameters()) {
      for (const double value : parameter.to_vector()) weights.push_back(value);
    }
    return weights;
  };
  const auto one = ended(nullptr);
  for (const int workers : {2, 3}) {
    const auto some = ended(data_parallel({.workers = workers, .threads_per_worker = 1}));
    for (std::size_t i = 0; i < one.size(); ++i) ASSERT_NEAR(some[i], one[i], 1e-5) << workers << " " << i;
  }
}

struct Ended {
  std::vector<double> losses;
  std::vector<std::vector<double>> weights;
};

// Uneven batches and rows, labels that do not count, and a last step of fewer batches.
Ended ended(int ranks, Precision precision) {
  Ended all;
  std::mutex mutex;
  RankRun recipe{.ranks = ranks,
                 .options = {.epochs = 2, .batch = 13, .accumulate = 3, .clip_norm = 0.5, .precision = precision},
                 .data = splits(points(103))};
  recipe.callbacks = [&](Trainer& trainer, int rank) {
    if (rank > 0) return;
    trainer.add(after_step([&](starling::Run& run) {
      const std::scoped_lock lock(mutex);
      all.losses.push_back(run.last().loss);
      all.weights.clear();
      for (const auto& parameter : run.net().parameters()) all.weights.push_back(parameter.to_vector());
    }));
  };
  recipe.run();
  return all;
}

TEST(AccumulatingRanks, TrainLikeOne) {
  const Ended one = ended(1, Precision::f32);
  ASSERT_GT(one.losses.size(), 4u);
  for (const int ranks : {2, 3}) {
    const Ended some = ended(ranks, Precision::f32);
    ASSERT_EQ(some.losses.size(), one.losses.size());
    for (std::size_t i = 0; i < one.losses.size(); ++i) EXPECT_NEAR(some.losses[i], one.losses[i], 1e-5) << i;
    for (std::size_t i = 0; i < one.weights.size(); ++i) {
      for (std::size_t k = 0; k < one.weights[i].size(); ++k)
        ASSERT_NEAR(some.weights[i][k], one.weights[i][k], 1e-5) << i << " " << k;
    }
  }
}

// A job with an embedding of row-sparse gradients: Hogwild writes the rows that were read, and no others.
class SparseHogwild : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream file(folder_.path() / "letters.csv");
    file << "text,kind\n";
    for (int i = 0; i < 64; ++i)
      file << (i % 2 == 0 ? "aa ab ac" : "ba bb bc") << "," << (i % 2 == 0 ? "a" : "b") << "\n";
  }

  // Counters of rank 0.
  std::map<std::string, double> train(bool sparse) const {
    const std::string text =
        "model: {layers: [{embedding: {vocabulary: 1000, width: 8, sparse: " + std::string(sparse ? "true" : "false") +
        "}}, {flatten: {}}, {linear: {out: 2}}]}\n"
        "data: {name: csv_text, text: text, label: kind, length: 3, batch: 16}\n"
        "optimizer: {name: sgd, lr: 0.1}\ntrain: {epochs: 3, seed: 7, export: false}\n"
        "monitor: {tensorboard: false}\ndistribute: {workers: 2, threads: 1, strategy: hogwild}\n";
    const std::vector<std::string> set = {"data.train=[" + (folder_.path() / "letters.csv").string() + "]",
                                          "train.folder=" + (folder_.path() / (sparse ? "s" : "d")).string()};
    const Job job = read_job(ConfigNode::parse(text, "job.yaml", set));
    TrainOptions options;
    options.progress.mode = ProgressMode::off;
    const TrainResult result = run_job(job, options);
    EXPECT_LT(result.summary.loss, 0.6);
    std::map<std::string, double> counters;
    for (const auto& [name, value] : result.summary.ranks.at(0).counters.items()) counters[name] = value.get<double>();
    return counters;
  }

  testing::TestFolder folder_{"sparse-hogwild"};
};

TEST_F(SparseHogwild, WritesOnlyTheRowsThatWereRead) {
  const auto sparse = train(true), dense = train(false);
  const double updates = sparse.at("updates");
  ASSERT_GT(updates, 0);
  constexpr double kRest = 24 * 2 + 2;  // the linear layer, which is dense
  EXPECT_GT(sparse.at("rows_written"), 0);
  EXPECT_LE(sparse.at("rows_written"), 6 * updates) << "there are six words";
  EXPECT_EQ(sparse.at("elements_written"), 8 * sparse.at("rows_written") + kRest * updates);
  EXPECT_EQ(dense.at("rows_written"), 0) << "control: a dense gradient";
}

}  // namespace
}  // namespace starling::train
