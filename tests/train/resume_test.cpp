// A run stopped after any number of steps and resumed ends bit-identical to the uninterrupted one, for all kinds of
// runs.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>

#include "starling/base/error.h"
#include "starling/optim/adam.h"
#include "starling/train/callbacks/checkpoints.h"
#include "starling/train/callbacks/ready_made.h"
#include "starling/train/run/refusal.h"
#include "train/trainer_testing.h"

namespace starling::train {
namespace {

using testing::hash_of;
using testing::points;
using testing::quiet;
using testing::small_net;

// A stateful schedule: the rate falls if the metric has not improved.
class Falls final : public optim::Schedule {
 public:
  double factor(const optim::ScheduleMoment& moment) const override { return factor_ * (moment.step < 3 ? 0.3 : 1); }
  void observe(double metric) override {
    if (metric >= best_) factor_ /= 2;
    best_ = std::min(best_, metric);
  }
  nlohmann::json state() const override { return {{"factor", factor_}, {"best", best_}}; }
  void restore(const nlohmann::json& state) override {
    factor_ = state.at("factor").get<double>();
    best_ = state.at("best").get<double>();
  }

 private:
  double factor_ = 1;
  double best_ = 1e9;
};

struct Outcome {
  std::string hash;
  std::map<std::string, double> metrics;
  std::string ended_by;
  std::int64_t steps = 0;
  std::int64_t made = 0;  // steps made by this call, without those before it
};

class Resumed : public ::testing::Test {
 protected:
  struct Recipe {
    TrainerOptions options{};
    std::function<void(Trainer&)> callbacks{};
    bool schedule = false;
    double lr = 0.05;
    starling::Resume resume = starling::Resume::automatic;
  };

  // Creates everything anew, as another process would.
  Outcome run(const Recipe& recipe, const std::string& folder, std::int64_t stop_after) {
    auto net = small_net(0.2);
    optim::Adam optimizer(net.parameters(), {.lr = recipe.lr});
    TrainerOptions options = quiet(recipe.options);
    options.folder = runs_.path() / folder;
    if (recipe.schedule) {
      options.schedule = std::make_shared<Falls>();
      options.watch = "loss";
    }
    std::int64_t asked = 0;
    if (stop_after >= 0) options.stop = [&] { return asked++ >= stop_after; };
    Trainer trainer(net, optimizer, classify(), options);
    if (recipe.callbacks) recipe.callbacks(trainer);
    trainer.add(checkpoints({.resume = recipe.resume}));
    std::int64_t made = 0;
    trainer.add(after_step([&](starling::Run&) { ++made; }));
    const FitResult result = trainer.fit(points(150), points(60, 7));
    EXPECT_EQ(result.interrupted, stop_after >= 0) << "stopped after " << stop_after;
    return {hash_of(net), result.summary.metrics, result.ended_by, result.summary.steps, made};
  }

  void expect_same(const Recipe& recipe, const std::vector<std::int64_t>& breaks) {
    const Outcome straight = run(recipe, "straight", -1);
    for (const std::int64_t at : breaks) {
      const std::string folder = "broken-" + std::to_string(at);
      const Outcome begun = run(recipe, folder, at);
      const Outcome rest = run(recipe, folder, -1);
      EXPECT_EQ(begun.made + rest.made, straight.made) << "a run that starts over ends in the same bits, too";
      EXPECT_GT(begun.made, 0);
      EXPECT_EQ(rest.hash, straight.hash) << "stopped after " << at;
      EXPECT_EQ(rest.metrics, straight.metrics) << "stopped after " << at;
      EXPECT_EQ(rest.ended_by, straight.ended_by);
      EXPECT_EQ(rest.steps, straight.steps);
    }
  }

  testing::TestFolder runs_{"resume-runs"};
};

TEST_F(Resumed, OfAPlainRun) { expect_same({.options = {.epochs = 3, .batch = 16}}, {1, 5, 10, 14}); }

TEST_F(Resumed, OfAScheduleThatRemembers) {
  expect_same({.options = {.epochs = 4, .batch = 16, .evaluate_every = 3}, .schedule = true, .lr = 0.2},
              {2, 9, 10, 23});
}

TEST_F(Resumed, WithinAnEpochOfAccumulatedSteps) {
  // Ten batches, three a step: the last step of an epoch has one.
  expect_same({.options = {.epochs = 3, .batch = 16, .accumulate = 3, .clip_norm = 0.1}}, {1, 3, 4, 6});
}

TEST_F(Resumed, OfAveragedWeights) {
  expect_same({.options = {.epochs = 3, .batch = 16},
               .callbacks = [](Trainer& trainer) { trainer.add(average_weights({.decay = 0.8, .from_step = 4})); }},
              {2, 7, 12});
}

TEST_F(Resumed, OfAnEarlyStopThatCounts) {
  expect_same({.options = {.epochs = 30, .batch = 16, .evaluate_every = 4},
               .callbacks = [](Trainer& trainer) { trainer.add(early_stop({.metric = "loss", .patience = 2})); },
               .lr = 0.3},
              {6, 13});
}

TEST_F(Resumed, OfMixedPrecision) {
  for (const Precision precision : {Precision::bf16, Precision::f16}) {
    runs_.clear();
    expect_same({.options = {.epochs = 2, .batch = 16, .precision = precision}}, {3, 11});
  }
}

TEST_F(Resumed, RefusesCheckpointsOfAnotherRun) {
  Recipe recipe{.options = {.epochs = 1, .batch = 16}};
  run(recipe, "same", -1);
  recipe.options.batch = 8;
  try {
    run(recipe, "same", -1);
    FAIL() << "expected a refusal";
  } catch (const Refusal& e) {
    EXPECT_NE(std::string(e.what()).find("batch was 16, is 8"), std::string::npos) << e.what();
  }
}

// Variable of the environment, for a scope.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
};

TEST_F(Resumed, OfARestartedLaunchThatStartsOverTakesOnlyWhatTheLaunchHasWritten) {
  Recipe recipe{.options = {.epochs = 3, .batch = 16}, .resume = starling::Resume::none};
  const auto put_aside = [&](int number) {
    return std::filesystem::exists(runs_.path() / "same" / ("checkpoints-before-" + std::to_string(number)));
  };
  run(recipe, "same", 20);  // the old run
  const Variable launched("STARLING_LAUNCHED", "this one");
  {
    const Variable again("STARLING_EPOCH", "1");  // the first start died before it had put the old run aside
    EXPECT_EQ(run(recipe, "same", 4).steps, 4);
    EXPECT_TRUE(put_aside(1));
  }
  {
    const Variable again("STARLING_EPOCH", "2");
    EXPECT_EQ(run(recipe, "same", 4).steps, 8);
    EXPECT_FALSE(put_aside(2)) << "its own checkpoint of step 4 was to be gone on from";
  }
  const Variable first("STARLING_EPOCH", "0");
  EXPECT_EQ(run(recipe, "same", 4).steps, 4) << "no restart";
  EXPECT_TRUE(put_aside(2));
}

TEST_F(Resumed, KeepsTheBestStateBesideTheNewest) {
  auto net = small_net();
  optim::Adam optimizer(net.parameters(), {.lr = 0.5});
  TrainerOptions options = quiet({.epochs = 6, .batch = 16, .folder = runs_.path() / "best"});
  Trainer trainer(net, optimizer, classify(), options);
  std::map<double, std::int64_t> losses;
  trainer.add(after_evaluation(
      [&](starling::Run& run) { losses.emplace(run.evaluation().metrics.at("loss"), run.state().step); }));
  trainer.add(checkpoints({.best = "loss"})).fit(points(150), points(60, 7));
  const auto steps = CheckpointFolder(runs_.path() / "best" / "checkpoints-best", 2).steps();
  ASSERT_FALSE(steps.empty());
  EXPECT_EQ(steps.back(), losses.begin()->second);
}

TEST_F(Resumed, SavesEverySoManySteps) {
  auto net = small_net();
  optim::Adam optimizer(net.parameters(), {.lr = 0.05});
  Trainer trainer(net, optimizer, classify(), quiet({.epochs = 1, .batch = 16, .folder = runs_.path() / "every"}));
  trainer.add(checkpoints({.every_steps = 4, .keep = 10})).fit(points(150));
  EXPECT_EQ(CheckpointFolder(runs_.path() / "every" / "checkpoints").steps(), (std::vector<std::int64_t>{4, 8, 10}));
}

}  // namespace
}  // namespace starling::train
