// Best checkpoints of a run, and early stopping.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <sstream>

#include "starling/base/error.h"
#include "starling/base/file/temporary_name.h"
#include "starling/optim/schedules.h"
#include "starling/train/callbacks/checkpoints.h"
#include "starling/train/callbacks/ready_made.h"
#include "starling/train/run/run_weights.h"
#include "testing/temporary_folder.h"
#include "train/trainer_testing.h"

namespace starling::train {
namespace {

using testing::points;
using testing::quiet;
using testing::small_net;

class Best : public ::testing::Test {
 protected:
  std::filesystem::path run() const { return folder_.path() / "run"; }

  // A checkpoint that was kept for a value of a metric.
  void keep(std::int64_t step, const std::string& metric, double value, bool lowest) const {
    Checkpoint made{.step = step, .tensors = {{"w", from_host<float>(std::vector<float>{1}, {1})}}};
    made.extra["callbacks"]["checkpoints"] = {{"metric", metric}, {"best", value}, {"lowest", lowest}};
    ASSERT_TRUE(CheckpointFolder(run() / "checkpoints-best", 10).save(made));
  }
  std::int64_t best_step() const { return load_run_checkpoint(run(), "best").value().step; }

  // Trains with these callbacks beside checkpoints, going on with what is in the folder.
  FitResult fit(std::int64_t epochs, const CheckpointsOptions& how, const std::vector<CallbackPtr>& callbacks,
                std::ostream* told = nullptr) const {
    auto net = small_net();
    optim::Sgd optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    TrainerOptions options = quiet({.epochs = epochs, .batch = 16, .folder = run()});
    if (told != nullptr) options.progress = {.mode = ProgressMode::plain, .out = told, .plain_every_s = 1e9};
    Trainer trainer(net, optimizer, classify(), options);
    for (const auto& callback : callbacks) trainer.add(callback);
    trainer.add(checkpoints(how));
    return trainer.fit(points(64), points(40, 7));
  }
  nlohmann::json state_of(const std::string& callback) const {
    return load_run_checkpoint(run(), "latest").value().extra.at("callbacks").at(callback);
  }

  testing::TestFolder folder_{"best"};
};

TEST_F(Best, IsTheOneWithTheBestValueNotTheNewest) {
  keep(30, "accuracy", 0.9, false);
  keep(40, "accuracy", 0.8, false);  // of a history that was rolled back
  EXPECT_EQ(best_step(), 30);
  keep(50, "loss", 0.4, true);  // kept for another metric
  EXPECT_EQ(best_step(), 50);
  keep(45, "loss", 0.3, true);
  EXPECT_EQ(best_step(), 45);
}

void damage(const std::filesystem::path& checkpoint) { std::filesystem::remove(checkpoint / "manifest.json"); }

TEST_F(Best, IsNotSilentlyAnOlderOneIfItIsDamaged) {
  keep(30, "accuracy", 0.9, false);
  keep(40, "accuracy", 0.8, false);
  for (const char* step : {"step-00000030", "step-00000040"}) {
    damage(run() / "checkpoints-best" / step);
    const auto loaded = load_run_checkpoint(run(), "best");
    ASSERT_FALSE(loaded) << step;
    EXPECT_NE(loaded.error().find(step), std::string::npos) << loaded.error();
    keep(step[11] == '3' ? 30 : 40, "accuracy", step[11] == '3' ? 0.9 : 0.8, false);
  }
  EXPECT_EQ(best_step(), 30);
}

TEST_F(Best, NorIsTheNewestAndTheStepThatIsSoundIsTold) {
  fit(2, {}, {});
  const CheckpointFolder saved(run() / "checkpoints");
  const auto steps = saved.steps();
  ASSERT_GE(steps.size(), 2);
  damage(run() / "checkpoints" / fmt::format("step-{:08}", steps.back()));
  const auto loaded = load_run_checkpoint(run(), "latest");
  ASSERT_FALSE(loaded);
  const std::string step = std::to_string(steps[steps.size() - 2]);
  EXPECT_NE(loaded.error().find("--checkpoint " + step), std::string::npos) << loaded.error();
  EXPECT_NE(loaded.error().find("sound are those of steps " + step), std::string::npos) << loaded.error();
  EXPECT_TRUE(load_run_checkpoint(run(), step));
}

TEST_F(Best, RunsRemoveWhatKilledOnesWereWriting) {
  const std::string own = temporary_suffix(), place = own.substr(0, own.find('-', 5) + 1);
  const auto dead = [&](const std::string& whole) { return run() / (whole + place + "999999999-0"); };
  std::filesystem::create_directories(dead("model") / "deep");
  for (const char* name : {"job.yaml", "summary.json", "notes"}) testing::write_text(dead(name), "half");
  const auto alive = run() / ("model" + own);
  std::filesystem::create_directories(alive);
  fit(1, {}, {});
  for (const char* name : {"model", "job.yaml", "summary.json"}) EXPECT_FALSE(std::filesystem::exists(dead(name)));
  EXPECT_TRUE(std::filesystem::exists(dead("notes"))) << "none of ours";
  EXPECT_TRUE(std::filesystem::exists(alive)) << "of a process that lives";
}

// Process numbers of another host say nothing here: what was begun there is only removed once it is old.
TEST_F(Best, RunsLeaveAloneWhatAnotherHostMayBeWriting) {
  const auto fresh = run() / "model.tmp-00000000-999999999-0", growing = run() / "model.tmp-00000000-999999999-1",
             old = run() / "model.tmp-00000000-999999999-2", of_before = run() / "job.yaml.tmp-999999999-3";
  for (const auto& folder : {fresh, growing, old}) {
    std::filesystem::create_directories(folder / "deep");
    testing::write_text(folder / "deep" / "weights", "half");
  }
  testing::write_text(of_before, "half");
  const auto long_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(25);
  for (const auto& path : {growing / "deep", growing, old / "deep" / "weights", old / "deep", old, of_before})
    std::filesystem::last_write_time(path, long_ago);
  fit(1, {}, {});
  EXPECT_TRUE(std::filesystem::exists(fresh));
  EXPECT_TRUE(std::filesystem::exists(growing)) << "a file in it is new";
  EXPECT_FALSE(std::filesystem::exists(old));
  EXPECT_FALSE(std::filesystem::exists(of_before)) << "a name without a place";
}

TEST_F(Best, IsNeverAnInfinityWhichNoCheckpointCouldHold) {
  const CallbackPtr stop = early_stop({.metric = "loss", .patience = 9});
  stop->restore({{"metric", "loss"}, {"best", nullptr}, {"best_step", 5}, {"waited", 1}});
  EXPECT_EQ(stop->state().at("best_step"), -1);
}

TEST_F(Best, WaitsForAMetricOfTheAveragedWeights) {
  const auto result = fit(3, {.best = "ema_accuracy"},
                          {average_weights({.decay = 0.5, .from_step = 6}), early_stop({.metric = "ema_loss"})});
  EXPECT_TRUE(result.summary.metrics.contains("ema_accuracy"));
  EXPECT_GE(best_step(), 6);
}

TEST_F(Best, WarnsIfTheMetricWasNeverReported) {
  std::ostringstream told;
  fit(1, {.best = "ema_accuracy"}, {early_stop({.metric = "ema_loss"})}, &told);
  EXPECT_NE(told.str().find("no evaluation told 'ema_loss'"), std::string::npos) << told.str();
  EXPECT_NE(told.str().find("no checkpoint of the best ema_accuracy"), std::string::npos) << told.str();
}

TEST_F(Best, WarnsThatTheMetricWasNeverANumber) {
  std::ostringstream told;
  const auto nan = after_evaluation([](starling::Run& run) { run.report("loss", NAN); });
  fit(1, {.best = "loss"}, {nan}, &told);
  EXPECT_NE(told.str().find("no checkpoint of the best loss: it was NaN in every evaluation"), std::string::npos)
      << told.str();
}

TEST_F(Best, OfAnotherMetricIsForgottenWhenTheRunGoesOn) {
  fit(2, {.best = "loss"}, {early_stop({.metric = "loss", .patience = 9})});
  ASSERT_LT(state_of("checkpoints").at("best").get<double>(), 2);
  fit(3, {.best = "accuracy"}, {early_stop({.metric = "accuracy", .patience = 9})});
  for (const char* callback : {"checkpoints", "early_stop"}) {
    const auto state = state_of(callback);
    EXPECT_EQ(state.at("metric"), "accuracy");
    EXPECT_EQ(state.at("best_step"), 12) << callback << ": the first evaluation of the new metric is the best so far";
    EXPECT_LE(state.at("best").get<double>(), 1) << callback;
  }
  EXPECT_EQ(best_step(), 12);
}

TEST_F(Best, IsWrittenBesideTheTrainingToo) {
  for (const bool background : {true, false}) {
    folder_.clear();
    fit(2, {.best = "loss", .background = background}, {});
    EXPECT_EQ(best_step(), state_of("checkpoints").at("best_step")) << background;
  }
}

// Records the metric direction that a run passes to its schedule.
class Asked final : public optim::Schedule {
 public:
  double factor(const optim::ScheduleMoment&) const override { return 1; }
  void prefer(bool is_higher) override { higher = is_higher; }
  std::optional<bool> higher;
};

TEST(Plateau, GoesByTheMetricUnlessToldOtherwise) {
  for (const std::string watch : {"", "accuracy", "loss"}) {
    auto net = small_net();
    optim::Sgd optimizer(net.parameters(), {.lr = 0.1});
    const auto schedule = std::make_shared<Asked>();
    TrainerOptions options = quiet({.epochs = 1, .batch = 16, .schedule = schedule, .watch = watch});
    Trainer(net, optimizer, classify(), options).fit(points(32), points(10));
    EXPECT_EQ(schedule->higher, watch != "loss") << watch;
  }
  using Mode = optim::PlateauOptions::Mode;
  const auto falls = [](Mode mode, std::optional<bool> higher, double slope) {
    const auto plateau = optim::make_schedule(optim::PlateauOptions{.mode = mode, .patience = 1});
    if (higher) plateau->prefer(*higher);
    for (int i = 0; i < 8; ++i) plateau->observe(10 + slope * i);
    return plateau->factor({}) < 1;
  };
  EXPECT_FALSE(falls(Mode::automatic, true, 1));
  EXPECT_TRUE(falls(Mode::automatic, true, -1));
  EXPECT_TRUE(falls(Mode::automatic, false, 1));
  EXPECT_TRUE(falls(Mode::automatic, std::nullopt, 1)) << "a smaller one is better where nobody says";
  EXPECT_TRUE(falls(Mode::min, true, 1));
  EXPECT_FALSE(falls(Mode::max, false, 1));
}

}  // namespace
}  // namespace starling::train
