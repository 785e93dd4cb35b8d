// Values that are not finite outside of the loss are a verdict of all ranks, and a run may go back to its newest
// checkpoint for any of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <numeric>
#include <sstream>

#include "starling/base/error.h"
#include "starling/dist/strategy/backup_workers.h"
#include "starling/dist/strategy/easgd.h"
#include "starling/dist/strategy/hogwild.h"
#include "starling/dist/strategy/local_sgd.h"
#include "starling/dist/strategy/strategy_kinds.h"
#include "starling/nn/embedding.h"
#include "starling/optim/adam.h"
#include "starling/train/callbacks/checkpoints.h"
#include "starling/train/callbacks/ready_made.h"
#include "starling/train/loop/rollbacks.h"
#include "starling/train/monitor/json_log.h"
#include "starling/train/monitor/monitor.h"
#include "train/ranks_testing.h"

namespace starling::train {
namespace {

using testing::hash_of;
using testing::points;
using testing::quiet;
using testing::RankRun;
using testing::small_net;
using testing::splits;

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

// Spoils a value of the state after a step, like a cosmic ray: `times` times in all. Under Adam it is a second moment,
// which makes updates small and leaves the loss finite.
CallbackPtr spoil(std::int64_t step, std::shared_ptr<int> times, int rank = 0) {
  return after_step([=](starling::Run& run) {
    if (run.state().step != step || run.plan().rank != rank || (*times)-- <= 0) return;
    for (const auto& [name, tensor] : run.optimizer().state()) {
      if (!name.ends_with(".exp_avg_sq") && !name.ends_with(".velocity")) continue;
      tensor.data<float>()[7] = INFINITY;
      return;
    }
    FAIL() << "expected a moment";
  });
}

class Rollback : public ::testing::Test {
 protected:
  struct Ended {
    std::string error{};
    std::string told{};
    std::string hash{};
    FitResult result{};
    std::int64_t steps = 0;
  };

  std::filesystem::path folder() const { return runs_.path() / "run"; }

  // Ten steps an epoch.
  Ended run(TrainerOptions options, const std::vector<CallbackPtr>& callbacks,
            const CheckpointsOptions& how = {.every_steps = 4}, std::shared_ptr<const Dataset> data = points(160)) {
    Ended ended;
    std::ostringstream told;
    auto net = small_net();
    optim::Adam optimizer(net.parameters(), {.lr = 0.01});
    options.batch = 16;
    options.folder = folder();
    options.progress = {.mode = ProgressMode::plain, .out = &told, .plain_every_s = 1e9};
    Trainer trainer(net, optimizer, classify(), options);
    for (const auto& callback : callbacks) trainer.add(callback);
    trainer.add(after_step([&](starling::Run& now) { ended.steps = now.state().step; }));
    trainer.add(monitor({.tensorboard = false, .scalars_every = 1}, {}));
    trainer.add(checkpoints(how));
    try {
      ended.result = trainer.fit(std::move(data), points(40, 7));
      ended.hash = hash_of(net);
    } catch (const Error& error) {
      ended.error = error.what();
    }
    ended.told = told.str();
    return ended;
  }

  testing::TestFolder runs_{"rollback-runs"};
};

TEST_F(Rollback, AnInfinityOutsideTheLossEndsTheRunWhenItIsSeen) {
  const auto once = [] { return std::make_shared<int>(1); };
  const Ended looked = run({.epochs = 3, .finite_every = 1}, {spoil(6, once())});
  EXPECT_TRUE(says(looked.error, "expected finite weights and optimizer state, got an infinity or NaN in 'fc1.weight."))
      << looked.error;
  EXPECT_EQ(looked.steps, 6);
  runs_.clear();
  const Ended saved = run({.epochs = 3, .finite_every = 0}, {spoil(6, once())});
  EXPECT_TRUE(says(saved.error, "at step 8 (it was finite after step 4")) << saved.error;
  EXPECT_EQ(saved.steps, 8) << "the next checkpoint";
  EXPECT_EQ(CheckpointFolder(folder() / "checkpoints").steps().back(), 4);
  runs_.clear();
  const Ended ignored = run({.epochs = 1, .non_finite = NonFinite::ignore, .finite_every = 1}, {spoil(6, once())});
  EXPECT_EQ(ignored.error, "");
  EXPECT_TRUE(says(ignored.told, "warning: no checkpoint of step 8")) << ignored.told;
}

TEST_F(Rollback, GoesBackAndEndsAsIfNothingHadHappened) {
  const Ended straight = run({.epochs = 2}, {});
  runs_.clear();
  // Found at the next look, three steps late: the steps in question are then looked at one by one, and are fine.
  const Ended back =
      run({.epochs = 2, .non_finite = NonFinite::rollback, .finite_every = 3}, {spoil(13, std::make_shared<int>(1))});
  EXPECT_EQ(back.error, "");
  EXPECT_TRUE(says(back.told, "going back to the newest checkpoint; looking for the step from 13 to 15")) << back.told;
  EXPECT_EQ(back.hash, straight.hash);
  EXPECT_EQ(back.result.summary.metrics, straight.result.summary.metrics);
  EXPECT_EQ(back.result.summary.steps, straight.result.summary.steps);
  EXPECT_EQ(back.result.summary.rollbacks, 1);
  EXPECT_EQ(back.result.summary.skipped, 0);
  const RunLog log = read_run_log(folder()).value();
  std::vector<std::int64_t> steps;
  for (const auto& point : log.find("loss")->points) steps.push_back(point.step);
  std::vector<std::int64_t> wanted(20);
  for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] = static_cast<std::int64_t>(i) + 1;
  EXPECT_EQ(steps, wanted) << "every step once";
}

TEST_F(Rollback, WritesNoBestStateThatWasNotEvaluated) {
  const Ended back = run({.epochs = 2, .non_finite = NonFinite::rollback, .finite_every = 0},
                         {spoil(20, std::make_shared<int>(1))}, {.every_steps = 7, .best = "loss"});
  EXPECT_EQ(back.error, "");
  EXPECT_EQ(back.result.summary.rollbacks, 1);
  const auto steps = CheckpointFolder(folder() / "checkpoints-best").steps();
  ASSERT_FALSE(steps.empty());
  for (const std::int64_t step : steps) EXPECT_EQ(step % 10, 0) << "evaluations end epochs of ten steps";
}

TEST_F(Rollback, LeavesOutTheStepThatDoesItAgain) {
  const Ended back =
      run({.epochs = 2, .non_finite = NonFinite::rollback, .finite_every = 5}, {spoil(13, std::make_shared<int>(2))});
  EXPECT_EQ(back.error, "");
  EXPECT_TRUE(says(back.told, "looking for the step from 13 to 15")) << back.told;
  EXPECT_TRUE(says(back.told, "step 13 is left out")) << back.told;
  EXPECT_EQ(back.result.summary.rollbacks, 2);
  EXPECT_EQ(back.result.summary.skipped, 1);
  EXPECT_EQ(back.result.summary.steps, 20);
}

// One row of 1e25 makes a second moment infinite, while loss and weights stay finite.
TEST_F(Rollback, LeavesOutTheBatchWithAnOutlierUnderAdam) {
  const auto outlier = [] {
    std::vector<Tensor> fields{empty({160, 8}, DType::f32), empty({160}, DType::i64)};
    std::vector<std::int64_t> rows(160);
    std::iota(rows.begin(), rows.end(), 0);
    points(160)->gather(rows, fields);
    for (int d = 0; d < 8; ++d) fields[0].data<float>()[(6 * 16 + 3) * 8 + d] = 1e25F;  // of step 7
    return std::make_shared<TensorDataset>(std::move(fields));
  };
  TrainerOptions options{.epochs = 1};
  options.loader.shuffle = false;
  const Ended stopped = run(options, {}, {.every_steps = 4}, outlier());
  EXPECT_TRUE(says(stopped.error, "at step 8 (it was finite after step 4")) << stopped.error;
  runs_.clear();
  options.non_finite = NonFinite::rollback;
  const Ended back = run(options, {}, {.every_steps = 4}, outlier());
  EXPECT_EQ(back.error, "");
  EXPECT_TRUE(says(back.told, "looking for the step from 5 to 8")) << back.told;
  EXPECT_TRUE(says(back.told, "step 7 is left out")) << back.told;
  EXPECT_EQ(back.result.summary.skipped, 1);
  EXPECT_EQ(CheckpointFolder(folder() / "checkpoints").steps().back(), 10);
}

// A row of an embedding that no sample asks for: neither the loss nor any gradient tells of it.
TEST_F(Rollback, GoesBackForARowOfAnEmbeddingThatNothingReads) {
  constexpr std::int64_t kRows = 9, kUnused = 8, kSamples = 160;
  std::vector<std::int64_t> tokens, labels;
  for (std::int64_t i = 0; i < kSamples; ++i) {
    for (int k = 0; k < 4; ++k) tokens.push_back((i * 5 + k * k) % kUnused);
    labels.push_back(tokens[static_cast<std::size_t>(4 * i)] % 4);
  }
  const auto data = std::make_shared<TensorDataset>(
      std::vector<Tensor>{from_host<std::int64_t>(tokens, {kSamples, 4}), from_host<std::int64_t>(labels, {kSamples})});
  const auto ended = [&](const std::string& folder, bool spoiled) {
    RankRun run{.ranks = 2, .options = {.epochs = 2, .batch = 16}, .data = splits(data)};
    run.options.folder = runs_.path() / folder;
    run.options.non_finite = NonFinite::rollback;
    run.options.finite_every = 3;
    run.net = [] {
      manual_seed(3);
      nn::Sequential net;
      net.add("rows", nn::Embedding({.vocabulary = kRows, .width = 8}));
      net.add("flat", nn::Flatten()).add("fc", nn::Linear({.in = 32, .out = 4}));
      return net;
    };
    auto times = std::make_shared<std::atomic<int>>(spoiled ? 1 : 0);
    run.callbacks = [times](Trainer& trainer, int rank) {
      trainer.add(after_step([=](starling::Run& now) {
        if (rank != 1 || now.state().step != 13 || (*times)-- <= 0) return;
        now.net().named_parameters().front().second.data<float>()[kUnused * 8 + 3] = NAN;
      }));
      trainer.add(checkpoints({.every_steps = 4}));
    };
    return run.run();
  };
  const auto straight = ended("straight", false), back = ended("back", true);
  for (const auto& rank : back) {
    EXPECT_EQ(rank.result.summary.rollbacks, 1) << "a verdict of all";
    EXPECT_EQ(rank.result.summary.skipped, 0);
    EXPECT_EQ(rank.hash, straight[0].hash);
  }
}

// A crash between the rollback and the next checkpoint: the resumed run neither meets the batch nor counts anew.
TEST_F(Rollback, IsRememberedByARunThatIsResumed) {
  const auto outlier = [] {
    std::vector<Tensor> fields{empty({160, 8}, DType::f32), empty({160}, DType::i64)};
    std::vector<std::int64_t> rows(160);
    std::iota(rows.begin(), rows.end(), 0);
    points(160)->gather(rows, fields);
    fields[0].data<float>()[6 * 16 * 8] = NAN;  // of step 7
    return std::make_shared<TensorDataset>(std::move(fields));
  };
  TrainerOptions options{.epochs = 1, .non_finite = NonFinite::rollback};
  options.loader.shuffle = false;
  const auto crash = after_step([](starling::Run& run) {
    if (run.state().step == 7) fail("crashed");
  });
  const Ended crashed = run(options, {crash}, {.every_steps = 4}, outlier());
  EXPECT_TRUE(says(crashed.told, "step 7 is left out")) << crashed.told;
  EXPECT_TRUE(says(crashed.error, "crashed")) << crashed.error;
  const Ended back = run(options, {}, {.every_steps = 4}, outlier());
  EXPECT_EQ(back.error, "");
  EXPECT_TRUE(says(back.told, "at step 4")) << back.told;
  EXPECT_FALSE(says(back.told, "going back")) << back.told;
  EXPECT_EQ(back.result.summary.rollbacks, 1);
  EXPECT_EQ(back.result.summary.skipped, 1);
  EXPECT_EQ(back.result.summary.steps, 10);
}

TEST_F(Rollback, GoesBackToTheBeginningIfNothingWasSavedYet) {
  const Ended straight = run({.epochs = 1}, {}, {});
  runs_.clear();
  const Ended back = run({.epochs = 1, .non_finite = NonFinite::rollback, .finite_every = 1},
                         {spoil(2, std::make_shared<int>(1))}, {});
  EXPECT_EQ(back.error, "");
  EXPECT_TRUE(says(back.told, "at step 0")) << back.told;
  EXPECT_EQ(back.result.summary.skipped, 1) << "the step is left out";
  EXPECT_NE(back.hash, straight.hash);
}

TEST_F(Rollback, EndsAfterSoManyToOneCheckpoint) {
  const Ended ended = run({.epochs = 2, .non_finite = NonFinite::rollback, .finite_every = 1, .rollbacks = 3},
                          {after_step([](starling::Run& run) {
                            if (run.state().step >= 6) run.net().parameters()[0].data<float>()[0] = NAN;
                          })});
  EXPECT_TRUE(says(ended.error, "(after 3 rollbacks to the checkpoint of step 4, as many as train.rollbacks allows)"))
      << ended.error;
}

TEST(Rollbacks, LeaveOutMoreBeforeIfTheNextStepFailsToo) {
  Rollbacks rollbacks(2);
  std::string told;
  rollbacks.began_at(0);
  ASSERT_TRUE(rollbacks.take({"", 7, 6}, told));
  EXPECT_EQ(told, "step 7 is left out");
  rollbacks.began_at(0);
  ASSERT_TRUE(rollbacks.take({"", 8, 7}, told));
  EXPECT_EQ(told, "steps 6 to 8 are left out");
  EXPECT_TRUE(rollbacks.leaves_out(6) && rollbacks.leaves_out(8) && !rollbacks.leaves_out(5));
  rollbacks.began_at(0);
  EXPECT_FALSE(rollbacks.too_many());
  ASSERT_TRUE(rollbacks.take({"", 20, 19}, told));
  EXPECT_EQ(told, "step 20 is left out");
  rollbacks.began_at(16);
  EXPECT_EQ(rollbacks.again(), 1) << "a newer checkpoint is progress";
  EXPECT_EQ(rollbacks.count(), 3);
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(rollbacks.take({"", 20, 19}, told));
    rollbacks.began_at(16);
  }
  EXPECT_TRUE(rollbacks.too_many());
}

TEST(Rollbacks, AreNoMoreOftenAfterARestart) {
  Rollbacks before(2);
  std::string told;
  before.began_at(16);
  EXPECT_TRUE(before.state().is_null()) << "of a run that never went back";
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(before.take({"", 20 + i, 19 + i}, told));
    before.began_at(16);
  }
  EXPECT_FALSE(before.too_many());
  Rollbacks after(2);
  after.restore(nlohmann::json::parse(before.state().dump()));
  EXPECT_EQ(after.count(), 2);
  for (const int step : {19, 20, 21}) EXPECT_TRUE(after.leaves_out(step)) << step;
  after.began_at(16);
  ASSERT_TRUE(after.take({"", 22, 21}, told));
  EXPECT_EQ(told, "steps 18 to 22 are left out");
  after.began_at(16);
  EXPECT_TRUE(after.too_many());
}

struct Way {
  const char* name;
  testing::MakeStrategy make;
  bool exact;  // ends in the same bits every time
  int ranks = 3;
};
testing::MakeStrategy of_job(const std::string& options) {
  return dist::strategy_kinds().choose(ConfigNode::parse(options, "job.yaml")).make();
}
std::ostream& operator<<(std::ostream& out, const Way& way) { return out << way.name; }

const Way kWays[] = {
    {"allreduce", [](auto comm) { return allreduce(std::move(comm)); }, true},
    {"backup_workers",
     [](auto comm) { return std::make_shared<BackupWorkers>(std::move(comm), BackupWorkersOptions{.backups = 0}); },
     true},
    {"local_sgd", [](auto comm) { return std::make_shared<LocalSgd>(std::move(comm), LocalSgdOptions{.every = 3}); },
     true},
    {"easgd", [](auto comm) { return std::make_shared<Easgd>(std::move(comm), EasgdOptions{.every = 3}); }, true},
    {"easgd_async",
     [](auto comm) {
       return std::make_shared<Easgd>(std::move(comm), EasgdOptions{.every = 3, .asynchronous = true, .lag = 8});
     },
     false},
    {"hogwild", [](auto comm) { return std::make_shared<Hogwild>(std::move(comm), HogwildOptions{}); }, false},
    {"bmuf", of_job("{name: bmuf, every: 3}"), true},
    {"emso", of_job("{name: emso, inner: 2, every: 3}"), true},
    {"h2o", of_job("{name: h2o, nodes: 2, every: 3, lag: 0}"), false, 4},
};

class RollbackOfRanks : public ::testing::TestWithParam<Way> {
 protected:
  RankRun recipe(const std::string& folder) const {
    RankRun made{
        .ranks = GetParam().ranks, .options = {.epochs = 2, .batch = 18}, .data = splits(points(180), points(60, 7))};
    made.options.folder = runs_.path() / folder;
    made.options.non_finite = NonFinite::rollback;
    made.options.finite_every = 1;
    made.strategy = GetParam().make;
    return made;
  }
  testing::TestFolder runs_{"rollback-ranks"};
};

TEST_P(RollbackOfRanks, IsOneOfAll) {
  const auto ended = [&](const std::string& folder, bool spoiled) {
    RankRun made = recipe(folder);
    auto times = std::make_shared<int>(spoiled ? 1 : 0);
    made.callbacks = [times](Trainer& trainer, int) {
      trainer.add(spoil(14, times, 1));
      trainer.add(checkpoints({.every_steps = 4}));
    };
    return made.run();
  };
  const auto straight = ended("straight", false);
  const auto back = ended("back", true);
  for (const auto& rank : back) {
    EXPECT_EQ(rank.result.summary.steps, 20);
    EXPECT_EQ(rank.result.summary.rollbacks, 1);
    // Where a checkpoint shows it before the note of the step does, the step is looked for, and then does no harm.
    EXPECT_EQ(rank.result.summary.skipped, back[0].result.summary.skipped) << "all ranks decide alike";
    EXPECT_LE(rank.result.summary.skipped, 1);
    EXPECT_TRUE(std::isfinite(rank.result.summary.loss));
    EXPECT_TRUE(!GetParam().exact || rank.hash == back[0].hash);
  }
  for (const auto& rank : straight) EXPECT_EQ(rank.result.summary.rollbacks, 0);
}

// The others may hear of a bad step some steps later. Asynchronous ranks have a checkpoint of step 68 by then, as one
// that is due waits up to 64 steps for them to meet: it holds the bad step, and is none to go back to.
TEST_P(RollbackOfRanks, GoesBackBeforeTheBadStepOfAnyRank) {
  constexpr int kBad = 60;
  RankRun made = recipe("before");
  made.options.epochs = 1;
  made.options.finite_every = 0;
  made.options.loader.shuffle = false;
  std::vector<Tensor> fields{empty({1440, 8}, DType::f32), empty({1440}, DType::i64)};
  std::vector<std::int64_t> rows(1440);
  std::iota(rows.begin(), rows.end(), 0);
  points(1440)->gather(rows, fields);
  // Rows of all ranks: one that is behind the others may leave its own out.
  for (int row = (kBad - 1) * 18; row < kBad * 18; ++row) fields[0].data<float>()[row * 8] = NAN;
  made.data = splits(std::make_shared<TensorDataset>(std::move(fields)), points(60, 7));
  std::vector<std::vector<std::int64_t>> steps(static_cast<std::size_t>(GetParam().ranks));
  made.callbacks = [&](Trainer& trainer, int rank) {
    trainer.add(after_step(
        [&, rank](starling::Run& run) { steps[static_cast<std::size_t>(rank)].push_back(run.state().step); }));
    trainer.add(checkpoints({.every_steps = 4}));
  };
  for (const auto& rank : made.run()) {
    EXPECT_EQ(rank.result.summary.steps, 80);
    EXPECT_EQ(rank.result.summary.rollbacks, 1);
    EXPECT_TRUE(std::isfinite(rank.result.summary.loss));
  }
  for (const auto& of_rank : steps) {
    const auto again = std::adjacent_find(of_rank.begin(), of_rank.end(), [](auto a, auto b) { return b <= a; });
    ASSERT_NE(again, of_rank.end());
    EXPECT_LE(*(again + 1), kBad);
  }
}

TEST_P(RollbackOfRanks, EndsAllRanksWhereNoneIsAskedFor) {
  RankRun made = recipe("stop");
  made.options.non_finite = NonFinite::automatic;
  std::mutex mutex;
  std::vector<std::string> errors;
  made.options.failed = [&](std::string_view why) {
    const std::scoped_lock lock(mutex);
    errors.emplace_back(why);
  };
  auto times = std::make_shared<int>(1);
  made.callbacks = [times](Trainer& trainer, int) {
    trainer.add(spoil(5, times, 1));
    trainer.add(checkpoints({.every_steps = 4}));
  };
  EXPECT_THROW(made.run(), Error);
  ASSERT_EQ(errors.size(), static_cast<std::size_t>(GetParam().ranks));
  // Others may see it first where the moment, or a centre that it spoils, is everybody's.
  const bool shared = !GetParam().exact;
  for (const auto& error : errors) EXPECT_TRUE(shared || says(error, "an infinity or NaN on rank 1")) << error;
}

INSTANTIATE_TEST_SUITE_P(All, RollbackOfRanks, ::testing::ValuesIn(kWays),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace starling::train
