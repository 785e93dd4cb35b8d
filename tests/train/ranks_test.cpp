// Several ranks with a trainer each give the results of one trainer.
#include <gtest/gtest.h>

#include <cmath>
#include <mutex>
#include <numeric>
#include <set>
#include <utility>

#include "data/stream_testing.h"
#include "starling/base/error.h"
#include "starling/dist/strategy/easgd.h"
#include "starling/dist/strategy/fork_join.h"
#include "starling/dist/strategy/grouped.h"
#include "starling/dist/strategy/local_sgd.h"
#include "starling/dist/strategy/strategy_kinds.h"
#include "starling/ops/api/binary.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/reduce.h"
#include "starling/train/callbacks/ready_made.h"
#include "starling/train/ranks/link.h"
#include "train/ranks_testing.h"

namespace starling::train {
namespace {

using testing::points;
using testing::RankOutcome;
using testing::RankRun;
using testing::splits;

// Result of one trainer without a strategy for the same recipe.
RankOutcome alone(const RankRun& recipe) {
  RankOutcome own;
  auto net = testing::small_net(recipe.dropout);
  optim::Sgd optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  Trainer trainer(net, optimizer, classify(), testing::quiet(recipe.options));
  trainer.add(after_step([&](starling::Run& run) {
    own.losses.push_back(run.last().loss);
    own.samples.push_back(run.last().samples);
  }));
  own.result = trainer.fit(recipe.data);
  own.hash = testing::hash_of(net);
  return own;
}

testing::MakeStrategy deterministic(int shards) {
  return [shards](std::shared_ptr<Comm> comm) {
    return allreduce(std::move(comm), {.deterministic = true, .shards = shards});
  };
}

testing::MakeStrategy local(std::int64_t every) {
  return [every](std::shared_ptr<Comm> comm) -> std::shared_ptr<dist::RankStrategy> {
    return std::make_shared<LocalSgd>(std::move(comm), LocalSgdOptions{.every = every});
  };
}

testing::MakeStrategy elastic(bool asynchronous) {
  return [asynchronous](std::shared_ptr<Comm> comm) -> std::shared_ptr<dist::RankStrategy> {
    return std::make_shared<Easgd>(std::move(comm), EasgdOptions{.every = 3, .asynchronous = asynchronous});
  };
}

void expect_like_alone(const RankRun& recipe, double tolerance) {
  const RankOutcome want = alone(recipe);
  const auto got = recipe.run();
  for (const auto& rank : got) {
    EXPECT_EQ(rank.hash, got[0].hash);
    EXPECT_EQ(rank.samples, want.samples);
    EXPECT_EQ(rank.result.summary.steps, want.result.summary.steps);
    ASSERT_EQ(rank.losses.size(), want.losses.size());
    for (std::size_t i = 0; i < want.losses.size(); ++i) EXPECT_NEAR(rank.losses[i], want.losses[i], tolerance) << i;
  }
}

TEST(Ranks, TwoAndThreeRanksHaveTheLossesOfOneOverTwentySteps) {
  for (const int ranks : {2, 3}) {
    RankRun recipe{.ranks = ranks, .options = {.epochs = 5, .batch = 32}, .dropout = 0.2, .data = splits(points(128))};
    expect_like_alone(recipe, 1e-3);
  }
}

TEST(Ranks, ControlWithoutExchangesLossesDiffer) {
  RankRun recipe{.ranks = 2, .options = {.epochs = 5, .batch = 32}, .data = splits(points(128))};
  recipe.strategy = local(1000);
  const RankOutcome want = alone(recipe);
  const auto got = recipe.run();
  double apart = 0;
  for (std::size_t i = 0; i < want.losses.size(); ++i)
    apart = std::max(apart, std::abs(want.losses[i] - got[0].losses[i]));
  EXPECT_GT(apart, 1e-2);
}

TEST(Ranks, UnevenBatchesWeighEverySampleOnce) {
  // 103 in batches of 32 over 3 ranks: 10, 11 and 11, then a tail of 7.
  RankRun recipe{.ranks = 3, .options = {.epochs = 2, .batch = 32}, .data = splits(points(103))};
  expect_like_alone(recipe, 1e-4);
}

TEST(Ranks, WithoutRowsInTheTailTheyTakePartAllTheSame) {
  RankRun recipe{.ranks = 3, .options = {.epochs = 2, .batch = 32}, .data = splits(points(97))};
  expect_like_alone(recipe, 1e-4);  // the tail is one sample
}

TEST(Ranks, AccumulateAndClipLikeOne) {
  RankRun recipe{.ranks = 2,
                 .options = {.epochs = 2, .batch = 16, .accumulate = 3, .clip_norm = 0.5},
                 .data = splits(points(103))};
  expect_like_alone(recipe, 1e-3);
}

TEST(Ranks, OfAnyNumberEndInTheSameBitsInDeterministicMode) {
  RankRun recipe{
      .ranks = 1, .options = {.epochs = 2, .batch = 32}, .dropout = 0.2, .data = splits(points(103), points(50, 7))};
  recipe.strategy = deterministic(6);
  const auto one = recipe.run();
  for (const int ranks : {2, 3, 4}) {
    recipe.ranks = ranks;
    const auto some = recipe.run();
    for (const auto& rank : some) {
      EXPECT_EQ(rank.hash, one[0].hash) << ranks;
      EXPECT_EQ(rank.losses, one[0].losses) << ranks;
      EXPECT_EQ(rank.result.summary.metrics, one[0].result.summary.metrics) << ranks;
    }
  }
  recipe.strategy = deterministic(8);
  EXPECT_NE(recipe.run()[0].hash, one[0].hash) << "the shards decide the bits";
}

TEST(Ranks, EvaluateTogetherToTheBitsOfOne) {
  RankRun recipe{.ranks = 1, .options = {.epochs = 1, .batch = 32, .evaluate_batch = 16}};
  recipe.data = splits(points(64), points(107, 7));
  recipe.strategy = deterministic(6);
  recipe.each = [](TrainerOptions& options) {
    options.metrics = metrics_by_name({"accuracy", "top_k", "loss", "f1", "auc", "confusion"});
  };
  std::vector<Evaluation> told(3);
  recipe.callbacks = [&](Trainer& trainer, int rank) {
    trainer.add(after_evaluation(
        [&told, rank](starling::Run& run) { told[static_cast<std::size_t>(rank)] = run.evaluation(); }));
  };
  recipe.run();
  const Evaluation one = told[0];
  EXPECT_EQ(one.samples, 107);
  recipe.ranks = 3;
  recipe.run();
  for (const auto& some : told) {
    EXPECT_EQ(some.samples, 107);
    EXPECT_EQ(some.metrics, one.metrics);
  }
  EXPECT_EQ(told[0].tables, one.tables);
}

// A metric that must see every batch itself.
class Counted final : public Metric {
 public:
  void add(const Judged&) override { ++batches_; }
  double value() const override { return batches_; }
  void reset() override { batches_ = 0; }

 private:
  double batches_ = 0;
};

TEST(Ranks, RankZeroEvaluatesMetricsThatCannotBeDivided) {
  RankRun recipe{.ranks = 2, .options = {.epochs = 1, .batch = 32, .evaluate_batch = 16}};
  recipe.data = splits(points(64), points(107, 7));
  recipe.each = [](TrainerOptions& options) { options.metrics = {{"batches", std::make_shared<Counted>()}}; };
  for (const auto& rank : recipe.run()) EXPECT_EQ(rank.result.summary.metrics.at("batches"), 7);
}

TEST(Ranks, LeaveTogetherWhenOneIsAskedTo) {
  RankRun recipe{.ranks = 3, .options = {.epochs = 4, .batch = 32}, .data = splits(points(128))};
  recipe.callbacks = [](Trainer& trainer, int rank) {
    trainer.add(after_step([rank](starling::Run& run) {
      if (rank == 2 && run.state().step == 6) run.stop("seen enough");
    }));
  };
  for (const auto& rank : recipe.run()) {
    EXPECT_EQ(rank.result.summary.steps, 6);
    EXPECT_FALSE(rank.result.ended_by.empty());
  }
}

TEST(Ranks, LeaveTogetherWhenOneIsInterrupted) {
  RankRun recipe{.ranks = 2, .options = {.epochs = 4, .batch = 32}, .data = splits(points(128))};
  auto asked = std::make_shared<std::atomic<int>>(0);
  recipe.options.stop = [asked] { return thread_rank() == 1 && (*asked)++ >= 3; };  // first asked before the first step
  const auto got = recipe.run();
  EXPECT_TRUE(got[0].result.interrupted);
  EXPECT_TRUE(got[1].result.interrupted);
  EXPECT_EQ(got[0].result.summary.steps, got[1].result.summary.steps);
  EXPECT_EQ(got[0].result.summary.steps, 3);
}

TEST(Ranks, EndWithTheErrorOfTheOneThatFailed) {
  RankRun recipe{.ranks = 3, .options = {.epochs = 4, .batch = 32}, .data = splits(points(128))};
  recipe.callbacks = [](Trainer& trainer, int rank) {
    trainer.add(after_step([rank](starling::Run& run) {
      if (rank == 1 && run.state().step == 3) fail("[test] the disk of rank one is gone");
    }));
  };
  try {
    recipe.run();
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("the disk of rank one is gone"), std::string::npos) << error.what();
  }
}

TEST(Ranks, WhoseWeightsDriftApartAreNamed) {
  RankRun recipe{.ranks = 3, .options = {.epochs = 4, .batch = 32, .hash_every = 4}, .data = splits(points(128))};
  recipe.callbacks = [](Trainer& trainer, int rank) {
    trainer.add(after_step([rank](starling::Run& run) {
      if (rank == 1 && run.state().step == 2) run.net().parameters()[0].data<float>()[3] += 1e-4F;
    }));
  };
  try {
    recipe.run();
    FAIL() << "expected an error";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("rank 1"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("fc1"), std::string::npos) << error.what();
  }
  recipe.options.hash_every = 0;
  EXPECT_NO_THROW(recipe.run()) << "nobody looks";
}

TEST(Ranks, TakeTheSameVerdictOnALossThatIsNotFinite) {
  for (const bool exchanging : {true, false}) {
    RankRun recipe{.ranks = 2, .options = {.epochs = 9, .batch = 32}, .data = splits(points(128))};
    if (!exchanging) recipe.strategy = local(4);
    recipe.callbacks = [](Trainer& trainer, int rank) {
      trainer.add(after_step([rank](starling::Run& run) {
        if (rank == 1 && run.state().step == 5) run.net().parameters()[0].data<float>()[0] = NAN;
      }));
    };
    recipe.options.hash_every = 0;
    try {
      recipe.run();
      FAIL() << "expected an error";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("expected a finite loss"), std::string::npos) << error.what();
    }
  }
}

class RankCheckpoints : public ::testing::Test {
 protected:
  RankRun recipe(const std::string& folder, int ranks) const {
    RankRun made{.ranks = ranks, .options = {.epochs = 2, .batch = 32}, .dropout = 0.2, .data = splits(points(103))};
    made.options.folder = runs_.path() / folder;
    made.strategy = deterministic(6);
    made.callbacks = [](Trainer& trainer, int) { trainer.add(checkpoints()); };
    return made;
  }
  static void stop_after(RankRun& recipe, int steps) {
    auto asked = std::make_shared<std::atomic<int>>(0);
    recipe.options.stop = [asked, steps] { return thread_rank() == 0 && (*asked)++ >= steps; };
  }

  testing::TestFolder runs_{"rank-runs"};
};

TEST_F(RankCheckpoints, CanBeResumedByAnotherNumberOfRanks) {
  const std::string straight = recipe("straight", 2).run()[0].hash;
  for (const int after : {2, 4}) {
    const std::string folder = "broken-" + std::to_string(after);
    RankRun first = recipe(folder, 3);
    stop_after(first, after);
    EXPECT_TRUE(first.run()[0].result.interrupted);
    const auto rest = recipe(folder, 2).run();
    EXPECT_FALSE(rest[0].result.interrupted);
    EXPECT_EQ(rest[0].losses.size(), 8U - static_cast<std::size_t>(after)) << "it went on";
    EXPECT_EQ(rest[0].hash, straight);
    EXPECT_EQ(rest[1].hash, straight);
  }
}

// Calls a function before a run's first step.
class FirstLook final : public Callback {
 public:
  explicit FirstLook(std::function<void(starling::Run&)> look) : look_(std::move(look)) {}
  std::string name() const override { return "first_look"; }
  StepWants before(starling::Run& run) override {
    if (look_) std::exchange(look_, nullptr)(run);
    return {};
  }

 private:
  std::function<void(starling::Run&)> look_;
};

// New workers start from the centre, and then so do old ones.
TEST_F(RankCheckpoints, OfElasticRanksCanBeResumedByAnotherNumberFromTheCentre) {
  for (const bool asynchronous : {false, true}) {
    const auto make = [&](int ranks) {
      RankRun made = recipe(asynchronous ? "elastic-asynchronous" : "elastic", ranks);
      made.dropout = 0;
      made.options.hash_every = 0;
      made.strategy = elastic(asynchronous);
      return made;
    };
    RankRun first = make(2);
    stop_after(first, 4);
    EXPECT_TRUE(first.run()[0].result.interrupted);
    RankRun second = make(3);
    std::vector<std::string> begun(3);
    second.callbacks = [&](Trainer& trainer, int rank) {
      trainer.add(checkpoints());
      trainer.add(std::make_shared<FirstLook>([&, rank](starling::Run& run) {
        begun[static_cast<std::size_t>(rank)] = testing::hash_of(run.net());
        run.link()->strategy().show();
        EXPECT_EQ(testing::hash_of(run.net()), begun[static_cast<std::size_t>(rank)]) << "it is the centre";
        run.link()->strategy().unshow();
      }));
    };
    const auto rest = second.run();
    EXPECT_EQ(begun[0], begun[1]);
    EXPECT_EQ(begun[0], begun[2]);
    EXPECT_EQ(rest[0].losses.size(), 4U) << "it went on";
    EXPECT_EQ(rest[0].hash, rest[2].hash);
  }
}

// Of ranks that have gone apart, another number of them resumes from what all had made, not from rank 0's work.
TEST_F(RankCheckpoints, BetweenTwoAveragesHoldTheWorkOfAllRanksForAnotherNumber) {
  struct Way {
    testing::MakeStrategy make;
    double pull;      // share of each rank in the model; the rest is the common start
    int members = 1;  // ranks that go together; `ranks` counts groups of them
  };
  const auto easgd = [](auto comm) {
    return std::make_shared<Easgd>(std::move(comm), EasgdOptions{.every = 100, .alpha = 0.25});
  };
  const auto of_job = [](const std::string& options) {
    const auto chosen = dist::strategy_kinds().choose(ConfigNode::parse(options, "job.yaml"));
    return testing::MakeStrategy(chosen.make());
  };
  const auto h2o = [](auto comm) {
    const auto nodes = static_cast<std::int64_t>(comm->size());
    return std::make_shared<ForkJoin>(std::move(comm), ForkJoinOptions{.nodes = nodes, .every = 100});
  };
  const auto grouped = [](const testing::MakeStrategy& between) {
    return [between](std::shared_ptr<Comm> comm) {
      const dist::Topology topology{.worker_groups = comm->size() / 2, .workers_per_group = 2};
      return std::make_shared<dist::Grouped>(std::move(comm), topology, AllReduceOptions{}, between);
    };
  };
  for (const auto& [make, pull, members] :
       {Way{local(100), 0.5}, Way{easgd, 0.25}, Way{of_job("{name: bmuf, every: 100}"), 0.5},
        Way{of_job("{name: emso, every: 100, inner: 2}"), 0.5}, Way{h2o, 0.5}, Way{grouped(local(100)), 0.5, 2},
        Way{grouped(easgd), 0.25, 2}}) {
    runs_.clear();
    std::vector<std::vector<double>> left(static_cast<std::size_t>(2 * members));
    std::vector<double> start;
    RankRun first = recipe("apart", 2 * members);
    first.dropout = 0;
    first.strategy = make;
    first.options.hash_every = 0;
    first.data = splits(points(128));  // batches of 32, halves for each
    first.callbacks = [&](Trainer& trainer, int rank) {
      trainer.add(std::make_shared<FirstLook>([&, rank](starling::Run& run) {
        if (rank == 0) start = run.net().parameters()[0].to_vector();
      }));
      trainer.add(after_step([&, rank](starling::Run& run) {
        left[static_cast<std::size_t>(rank)] = run.net().parameters()[0].to_vector();
      }));
      trainer.add(checkpoints());
    };
    stop_after(first, 3);
    EXPECT_TRUE(first.run()[0].result.interrupted);
    const std::vector<double>&one = left[0], &other = left[static_cast<std::size_t>(members)];
    for (const int ranks : {members, 3 * members}) {
      std::vector<std::vector<double>> begun(static_cast<std::size_t>(ranks));
      RankRun second = recipe("apart", ranks);
      second.dropout = 0;
      second.strategy = make;
      second.data = splits(points(128));
      second.options.hash_every = 0;
      second.callbacks = [&](Trainer& trainer, int rank) {
        trainer.add(std::make_shared<FirstLook>([&, rank](starling::Run& run) {
          begun[static_cast<std::size_t>(rank)] = run.net().parameters()[0].to_vector();
        }));
        trainer.add(checkpoints({.folder = runs_.path() / "apart" / "checkpoints", .keep = 9}));
        trainer.add(after_step([](starling::Run& run) { run.stop("seen enough"); }));
      };
      const auto kept = runs_.path() / "kept";
      std::filesystem::copy(runs_.path() / "apart", kept, std::filesystem::copy_options::recursive);
      second.run();
      for (const auto& weights : begun) {
        ASSERT_EQ(weights.size(), start.size());
        for (std::size_t i = 0; i < weights.size(); ++i)
          ASSERT_NEAR(weights[i], start[i] + pull * (one[i] - start[i]) + pull * (other[i] - start[i]), 1e-5) << i;
      }
      std::filesystem::remove_all(runs_.path() / "apart");
      std::filesystem::rename(kept, runs_.path() / "apart");
    }
  }
}

TEST_F(RankCheckpoints, HoldTheStateOfEveryRankIfRanksDiffer) {
  // Under local SGD weights differ between meetings, and the momentum of each rank is its own.
  const auto make = [&](const std::string& folder) {
    RankRun made = recipe(folder, 2);
    made.dropout = 0;
    made.strategy = local(3);
    return made;
  };
  const std::string straight = make("straight").run()[0].hash;
  RankRun first = make("broken");
  stop_after(first, 4);
  const auto stopped = first.run();
  EXPECT_TRUE(stopped[0].result.interrupted);
  EXPECT_NE(stopped[0].hash, stopped[1].hash);
  const auto rest = make("broken").run();
  EXPECT_GT(rest[0].losses.size(), 0U);
  EXPECT_EQ(rest[0].hash, rest[1].hash);
  EXPECT_EQ(rest[0].hash, straight);
}

double accuracy_of(nn::Module& net, const Dataset& data) {
  const NoGrad no_grad;
  std::vector<std::int64_t> rows(static_cast<std::size_t>(data.size()));
  std::iota(rows.begin(), rows.end(), 0);
  const Tensor fields[] = {empty({data.size(), 8}, DType::f32), empty({data.size()}, DType::i64)};
  data.gather(rows, fields);
  const auto logits = net(fields[0]).to_vector();
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < data.size(); ++i) {
    const double* row = logits.data() + 4 * i;
    right += std::max_element(row, row + 4) - row == fields[1].data<std::int64_t>()[i] ? 1 : 0;
  }
  return static_cast<double>(right) / static_cast<double>(data.size());
}

// Evaluations use the centre, after which the ranks' own weights return; the last one is of the final model.
TEST(ElasticRanks, EvaluateTheCentreAndGoOnFromTheirOwnWeights) {
  for (const bool asynchronous : {false, true}) {
    const auto test = points(60, 7);
    RankRun recipe{.ranks = 3, .options = {.epochs = 3, .batch = 33}, .data = splits(points(132), test)};
    recipe.strategy = elastic(asynchronous);
    std::vector<std::set<std::string>> judged(3), own(3);
    std::mutex mutex;
    std::set<std::pair<int, std::size_t>> seen;
    recipe.callbacks = [&](Trainer& trainer, int rank) {
      const auto note = [&](std::vector<std::set<std::string>>& where, std::size_t epoch, const nn::Module& net) {
        const std::scoped_lock lock(mutex);
        where[epoch].insert(testing::hash_of(net));
      };
      const auto first = [&, rank](std::size_t epoch) {
        const std::scoped_lock lock(mutex);
        return seen.insert({rank, epoch}).second;
      };
      trainer.add(after_evaluation([&, note, first](starling::Run& run) {
        const auto epoch = static_cast<std::size_t>(run.state().step / 4 - 1);
        if (!first(epoch)) return;  // the run has ended, and all have the centre
        note(own, epoch, run.net());
        run.link()->strategy().show();
        note(judged, epoch, run.net());
        EXPECT_NEAR(accuracy_of(run.net(), *test), run.evaluation().metrics.at("accuracy"), 1e-6);
        run.link()->strategy().unshow();
        note(own, epoch, run.net());
      }));
    };
    const auto all = recipe.run();
    for (std::size_t epoch = 0; epoch < 3; ++epoch) {
      EXPECT_EQ(judged[epoch].size(), 1U) << "one model is judged";
      EXPECT_EQ(own[epoch].size(), 3U) << "each rank has its own again";
    }
    EXPECT_EQ(*judged[2].begin(), all[0].hash);
  }
}

// A network that learns nothing and counts what it is shown.
TEST(Ranks, ReadShardsOfUnevenLengthToTheEndTogether) {
  const testing::TestFolder folder("rank-shards");
  data::DataSplits data;
  data.train_shards = testing::number_shards(folder.path(), {5, 23, 9});
  for (const int ranks : {1, 2, 3}) {
    auto comms = make_thread_comms(ranks, {.deadline = std::chrono::milliseconds(60'000)});
    std::vector<std::int64_t> steps(comms.size()), samples(comms.size());
    run_ranks(comms, [&](Comm& comm) {
      auto net = testing::small_net();
      optim::Sgd optimizer(net.parameters(), {.lr = 0.1});
      const auto objective = own_objective([](nn::Module& module, std::span<const Tensor> fields) {
        const Tensor x = cast(fields[0], DType::f32);
        const Tensor weight = module.parameters()[3];
        return Objective::Outputs{.loss = mean(mul(x, sum(mul(weight, weight))))};
      });
      TrainerOptions options = testing::quiet({.epochs = 2, .batch = 6});
      options.strategy = allreduce(std::shared_ptr<Comm>(&comm, [](Comm*) {}));
      Trainer trainer(net, optimizer, objective, options);
      const auto own = static_cast<std::size_t>(comm.rank());
      trainer.add(after_step([&](starling::Run& run) { samples[own] += run.last().samples; }));
      steps[own] = trainer.fit(data).summary.steps;
    });
    for (std::size_t rank = 0; rank < comms.size(); ++rank) {
      EXPECT_EQ(samples[rank], 2 * 37) << "every record once an epoch";
      EXPECT_EQ(steps[rank], steps[0]);
    }
  }
}

}  // namespace
}  // namespace starling::train
