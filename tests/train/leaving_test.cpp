// Ends of runs: a second fit, during an evaluation, beside another process, and what they leave.
#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "starling/base/error.h"
#include "starling/optim/schedules.h"
#include "starling/train/callbacks/checkpoints.h"
#include "starling/train/callbacks/ready_made.h"
#include "starling/train/monitor/json_log.h"
#include "starling/train/monitor/monitor.h"
#include "starling/train/run/run_lock.h"
#include "train/trainer_testing.h"

namespace starling::train {
namespace {

using testing::hash_of;
using testing::points;
using testing::quiet;
using testing::small_net;

struct Parts {
  nn::Sequential net = small_net();
  optim::Sgd optimizer{net.parameters(), {.lr = 0.1, .momentum = 0.9}};
};

TEST(Leaving, ASecondFitBeginsWithTheRateThatTheFirstBeganWith) {
  Parts s;
  TrainerOptions options = quiet({.epochs = 2, .batch = 16});
  options.schedule = optim::make_schedule(optim::CosineOptions{});
  std::vector<double> rates;
  Trainer trainer(s.net, s.optimizer, classify(), options);
  trainer.add(after_step([&](starling::Run& run) { rates.push_back(run.last().lr); }));
  trainer.fit(points(64), points(10));
  EXPECT_NEAR(s.optimizer.lr(), 0.1, 1e-7);
  trainer.fit(points(64), points(10));
  ASSERT_EQ(rates.size(), 16U);
  EXPECT_LT(rates[7], 0.01);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(rates[i + 8], rates[i], 1e-7) << i;
}

TEST(Leaving, AStatefulScheduleRestartsInASecondFit) {
  Parts s;
  s.optimizer.set_lr(0);  // the metric cannot improve
  TrainerOptions options = quiet({.epochs = 4, .batch = 16});
  options.schedule = optim::make_schedule(optim::PlateauOptions{.patience = 0});
  Trainer trainer(s.net, s.optimizer, classify(), options);
  trainer.fit(points(32), points(10));
  EXPECT_EQ(options.schedule->factor({}), 1);
}

TEST(Leaving, TheSummaryIsOfTheWeightsThatTheNetworkEndsWith) {
  for (const bool keep : {true, false}) {
    Parts s;
    Trainer trainer(s.net, s.optimizer, classify(), quiet({.epochs = 2, .batch = 16}));
    std::string trained;
    trainer.add(average_weights({.decay = 0.9, .keep = keep}));
    trainer.add(after_epoch([&](starling::Run& run) { trained = hash_of(run.net()); }));
    const FitResult result = trainer.fit(points(64), points(10));
    EXPECT_EQ(result.summary.weights_hash, hash_of(s.net));
    EXPECT_EQ(result.summary.weights_hash == trained, !keep);
  }
}

class LeavingFolder : public ::testing::Test {
 protected:
  struct Left {
    std::string hash;
    std::map<std::string, double> metrics;
    std::string ended_by;
    bool interrupted = false;
    int owed = 0;  // pending work in the newest checkpoint
  };

  // Runs with a stop at the n-th poll; -1: never. Metrics, rates and the end depend on every evaluation.
  Left run(const std::string& folder, std::int64_t stop_at, const TrainerOptions& how) const {
    auto net = small_net(0.2);
    optim::Sgd optimizer(net.parameters(), {.lr = 0.3});
    TrainerOptions options = quiet(how);
    options.folder = folder_.path() / folder;
    options.evaluate_batch = 7;
    options.schedule = optim::make_schedule(optim::PlateauOptions{.factor = 0.5, .patience = 0});
    std::int64_t asked = 0;
    if (stop_at >= 0) options.stop = [&] { return asked++ >= stop_at; };
    Trainer trainer(net, optimizer, classify(), options);
    trainer.add(early_stop({.metric = "loss", .patience = 4})).add(checkpoints());
    const FitResult result = trainer.fit(points(48), points(40, 7));
    const auto newest = CheckpointFolder(options.folder / "checkpoints").load_latest().value().checkpoint;
    return {hash_of(net), result.summary.metrics, result.ended_by, result.interrupted,
            newest.extra.at("run").at("owed").get<int>()};
  }

  void expect_same(const TrainerOptions& how, std::int64_t questions) const {
    const Left straight = run("straight", -1, how);
    EXPECT_EQ(straight.owed, 0);
    int owing = 0;
    for (std::int64_t at = 1; at < questions; ++at) {
      const std::string folder = "left-" + std::to_string(at);
      const Left left = run(folder, at, how);
      EXPECT_TRUE(left.interrupted) << at;
      owing += left.owed != 0 ? 1 : 0;
      const Left rest = run(folder, -1, how);
      EXPECT_EQ(rest.hash, straight.hash) << at;
      EXPECT_EQ(rest.metrics, straight.metrics) << at;
      EXPECT_EQ(rest.ended_by, straight.ended_by) << at;
      EXPECT_EQ(rest.owed, 0) << at;
    }
    EXPECT_GT(owing, questions / 3) << "most questions are asked within evaluations";
  }

  testing::TestFolder folder_{"leaving"};
};

// Label: waits
TEST_F(LeavingFolder, WithinTheEvaluationOfAnEpochChangesNothingInTheEnd) {
  expect_same({.epochs = 3, .batch = 16}, 26);
}

// Label: waits
TEST_F(LeavingFolder, WithinAnEvaluationBetweenStepsChangesNothingInTheEnd) {
  expect_same({.epochs = 4, .steps = 5, .batch = 16, .evaluate_every = 2}, 29);
}

// Label: waits
TEST_F(LeavingFolder, LocksTheFolderAgainstOtherRuns) {
  const auto folder = folder_.path() / "held";
  {
    const RunLock first(folder);
    EXPECT_THROW(RunLock second(folder), Error);
    EXPECT_NO_THROW(RunLock(folder_.path() / "another"));
  }
  EXPECT_NO_THROW(RunLock again(folder));

  Parts s;
  const RunLock other(folder);
  Trainer trainer(s.net, s.optimizer, classify(), quiet({.epochs = 1, .batch = 16, .folder = folder}));
  try {
    trainer.fit(points(32));
    FAIL() << "expected a refusal";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("no other run"), std::string::npos) << e.what();
  }
}

TEST_F(LeavingFolder, ACheckpointWithAMalformedStateIsRefusedWithAClearError) {
  const auto folder = folder_.path() / "strange";
  const auto fit = [&](bool broken) {
    Parts s;
    Trainer trainer(s.net, s.optimizer, classify(), quiet({.epochs = 2, .batch = 16, .folder = folder}));
    trainer.add(early_stop({.metric = "loss"})).add(checkpoints());
    if (!broken) return trainer.fit(points(32), points(10)).summary.steps;
    const CheckpointFolder all(folder / "checkpoints");
    Checkpoint newest = all.load_latest().value().checkpoint;
    newest.extra["callbacks"]["early_stop"] = {{"best_step", "many"}};
    newest.step += 1;
    EXPECT_TRUE(all.save(newest));
    return trainer.fit(points(32), points(10)).summary.steps;
  };
  fit(false);
  try {
    fit(true);
    FAIL() << "expected a refusal";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("expected the state of a run"), std::string::npos) << e.what();
  }
}

TEST_F(LeavingFolder, ARunThatACallbackEndsIsLoggedAsDone) {
  for (const bool interrupt : {false, true}) {
    Parts s;
    TrainerOptions options = quiet({.epochs = 9, .batch = 16, .folder = folder_.path() / (interrupt ? "i" : "e")});
    std::int64_t asked = 0;
    if (interrupt) options.stop = [&] { return ++asked > 2; };
    Trainer trainer(s.net, s.optimizer, classify(), options);
    trainer.add(after_step([](starling::Run& run) {
      if (run.state().step == 3) run.stop("enough");
    }));
    trainer.add(monitor({.tensorboard = false}));
    trainer.fit(points(64), points(10));
    std::ifstream in(options.folder / kLogName);
    std::string line, last;
    while (std::getline(in, line)) last = line;
    EXPECT_EQ(nlohmann::json::parse(last).at("how"), interrupt ? "stopped" : "done") << last;
  }
}

// Losses shown in the progress line, and those of the steps.
TEST(Leaving, TheShownLossIsAMeanFromItsFirstStepOn) {
  Parts s;
  std::ostringstream told;
  TrainerOptions options = quiet({.epochs = 1, .batch = 16});
  options.progress = {.mode = ProgressMode::json, .out = &told, .plain_every_s = 0};
  std::vector<double> losses;
  Trainer trainer(s.net, s.optimizer, classify(), options);
  trainer.add(after_step([&](starling::Run& run) { losses.push_back(run.last().loss); }));
  trainer.fit(points(320));
  std::istringstream lines(told.str());
  std::string line, last;
  while (std::getline(lines, line)) last = line;
  double sum = 0, weight = 0;
  for (const double loss : losses) {
    sum = 0.98 * sum + loss;
    weight = 0.98 * weight + 1;
  }
  EXPECT_NEAR(nlohmann::json::parse(last).at("loss").get<double>(), sum / weight, 1e-9);
}

TEST(Leaving, TheTimeLeftGoesByTheStepsThatAreLeft) {
  const auto left = [](std::int64_t steps, std::int64_t epochs) {
    Parts s;
    std::ostringstream told;
    TrainerOptions options = quiet({.epochs = epochs, .steps = steps, .batch = 16});
    double seconds = 0;
    options.progress = {.mode = ProgressMode::json, .out = &told, .plain_every_s = 1, .now = [&] { return seconds; }};
    Trainer trainer(s.net, s.optimizer, classify(), options);
    trainer.add(after_step([&](starling::Run&) { seconds += 1; }));  // 16 samples a second
    trainer.fit(points(320));
    std::istringstream lines(told.str());
    std::string line;
    while (std::getline(lines, line)) {
      const auto json = nlohmann::json::parse(line);
      if (json.at("step") == 4) return json.at("eta_s").get<double>();
    }
    return -1.0;
  };
  EXPECT_NEAR(left(10, 100), 6, 0.01);
  EXPECT_NEAR(left(1000, 1), 16, 0.01) << "the epochs end it first";
  EXPECT_NEAR(left(0, 2), 36, 0.01);
}

}  // namespace
}  // namespace starling::train
