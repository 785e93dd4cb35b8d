#include "starling/train/monitor/monitor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "starling/base/config/config.h"
#include "starling/nn/layers.h"
#include "starling/ops/api/random.h"
#include "starling/optim/sgd.h"
#include "starling/train/callbacks/checkpoints.h"
#include "starling/train/loop/trainer.h"
#include "starling/train/monitor/json_log.h"
#include "starling/train/objectives.h"
#include "testing/temporary_folder.h"

namespace starling::train {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

// Pictures of 4 x 4 pixels whose class is the brighter half.
std::shared_ptr<const Dataset> tiny_set(std::int64_t size) {
  std::vector<float> x;
  std::vector<std::int64_t> y;
  for (std::int64_t i = 0; i < size; ++i) {
    y.push_back(i % 2);
    for (std::int64_t pixel = 0; pixel < 16; ++pixel)
      x.push_back(static_cast<float>((i * 7 + pixel * 3) % 11) / 11 + (pixel / 8 == i % 2 ? 1.0F : 0.0F));
  }
  return std::make_shared<TensorDataset>(
      std::vector<Tensor>{from_host<float>(x, {size, 16}), from_host<std::int64_t>(y, {size})});
}

struct Recorded {
  std::int64_t step = 0;
  double loss = 0;
  bool values = false;  // gradients came with it
};

class MonitorTest : public ::testing::Test {
 protected:
  // 50 samples in batches of 10: five steps an epoch.
  void train(const std::string& name, const MonitorOptions& options, std::int64_t stop_after = -1,
             MonitorContext context = {}) {
    manual_seed(3);
    nn::Sequential net;
    net.add("fc1", nn::Linear({.in = 16, .out = 8}))
        .add("relu", nn::Relu())
        .add("fc2", nn::Linear({.in = 8, .out = 2}));
    optim::Sgd optimizer(net.parameters(), {.lr = 0.1});
    std::int64_t asked = 0;
    TrainerOptions trainer_options{.epochs = 3, .batch = 10, .folder = name.empty() ? fs::path() : folder_ / name};
    trainer_options.progress.mode = ProgressMode::off;
    trainer_options.threads = 1;
    if (stop_after >= 0) trainer_options.stop = [&asked, stop_after] { return asked++ >= stop_after; };
    Trainer trainer(net, optimizer, classify(), trainer_options);
    trainer.add(after_step([&](starling::Run& run) {
      steps_.push_back({run.state().step, run.last().loss, !run.last().values.gradients.empty()});
      if (run.state().step == throw_at_) throw std::runtime_error("broken");
    }));
    trainer.add(monitor(options, std::move(context)));
    if (!name.empty()) trainer.add(checkpoints({}));
    trainer.fit(tiny_set(50), tiny_set(20));
  }

  std::vector<json> events(const std::string& name) const {
    std::vector<json> all;
    std::istringstream lines(testing::read_text(folder_ / name / "log.jsonl"));
    for (std::string line; std::getline(lines, line);) all.push_back(json::parse(line));
    return all;
  }
  std::map<std::int64_t, double> losses(const std::string& name) const {
    std::map<std::int64_t, double> all;
    for (const auto& event : events(name)) {
      if (event.at("event") != "train") continue;
      EXPECT_TRUE(all.emplace(event.at("step"), event.at("loss")).second);
    }
    return all;
  }

  testing::TemporaryFolder folder_;
  std::vector<Recorded> steps_;
  std::int64_t throw_at_ = -1;
};

TEST_F(MonitorTest, LogsMeansOfTheStepsEvaluationsBeginningAndEnd) {
  train("run", {.tensorboard = false, .scalars_every = 4});
  const auto all = events("run");
  EXPECT_EQ(all.front().at("event"), "begin");
  EXPECT_EQ(all.front().at("resumed"), false);
  EXPECT_EQ(all.back().at("event"), "end");
  EXPECT_EQ(all.back().at("how"), "done");
  EXPECT_EQ(all.back().at("step"), 15);
  const auto logged = losses("run");
  ASSERT_EQ(logged.size(), 5U);  // 1, 4, 8, 12, and what is left at 15
  EXPECT_DOUBLE_EQ(logged.at(1), steps_[0].loss);
  EXPECT_NEAR(logged.at(4), (steps_[1].loss + steps_[2].loss + steps_[3].loss) / 3, 1e-12);
  EXPECT_NEAR(logged.at(8), (steps_[4].loss + steps_[5].loss + steps_[6].loss + steps_[7].loss) / 4, 1e-12);
  EXPECT_NEAR(logged.at(15), (steps_[12].loss + steps_[13].loss + steps_[14].loss) / 3, 1e-12);
  std::vector<json> evaluated;
  double time = 0;
  for (const auto& event : all) {
    if (event.at("event") == "eval") evaluated.push_back(event);
    EXPECT_GE(event.at("time").get<double>(), time);
    time = event.at("time");
    if (event.at("event") != "train") continue;
    EXPECT_NEAR(event.at("lr").get<double>(), 0.1, 1e-7);
    EXPECT_GT(event.at("samples_per_s"), 0);
    EXPECT_GE(event.at("data_wait"), 0);
    EXPECT_GT(event.at("memory"), 0);
  }
  ASSERT_EQ(evaluated.size(), 3U);
  EXPECT_EQ(evaluated[1].at("step"), 10);
  EXPECT_EQ(evaluated[1].at("epoch"), 2.0);
  EXPECT_GT(evaluated[2].at("test_accuracy"), 0.5);
}

TEST_F(MonitorTest, AResumedRunLogsWhatAnUndisturbedOneDoes) {
  train("whole", {.tensorboard = false, .scalars_every = 4});
  train("broken", {.tensorboard = false, .scalars_every = 4}, 6);
  train("broken", {.tensorboard = false, .scalars_every = 4});
  EXPECT_EQ(losses("broken"), losses("whole"));
  const auto all = events("broken");
  EXPECT_EQ(std::count_if(all.begin(), all.end(), [](const json& e) { return e.at("event") == "begin"; }), 2);
  EXPECT_EQ(std::count_if(all.begin(), all.end(), [](const json& e) { return e.at("event") == "eval"; }), 3);
  EXPECT_TRUE(
      std::is_sorted(all.begin(), all.end(), [](const json& a, const json& b) { return a.at("step") < b.at("step"); }));
}

TEST_F(MonitorTest, SwitchedOffItWritesNothingAndAsksForNothing) {
  train("off", {.tensorboard = false, .jsonl = false, .histograms_every = 1});
  EXPECT_FALSE(fs::exists(folder_ / "off/log.jsonl"));
  train("", {.histograms_every = 1});  // a run without a folder
  for (const auto& entry : fs::directory_iterator(folder_ / "off"))
    EXPECT_EQ(entry.path().string().find("tfevents"), std::string::npos);
  for (const auto& step : steps_) EXPECT_FALSE(step.values) << step.step;
}

TEST_F(MonitorTest, ARunThatThrowsIsMarkedAsFailed) {
  throw_at_ = 7;
  EXPECT_EQ(testing::error_of([&] { train("run", {.tensorboard = false}); }), "broken");
  EXPECT_EQ(events("run").back().at("event"), "end");
  EXPECT_EQ(events("run").back().at("how"), "failed");
}

TEST_F(MonitorTest, AsksForGradientsOnlyWhenHistogramsAreDue) {
  if (!has_event_writer()) GTEST_SKIP() << "built without protobuf";
  train("run", {.jsonl = false, .histograms_every = 5});
  for (const auto& step : steps_) EXPECT_EQ(step.values, step.step % 5 == 0) << step.step;
}

TEST_F(MonitorTest, MonitoringDoesNotChangeTheRun) {
  train("plain", {.tensorboard = false, .jsonl = false});
  const auto plain = steps_;
  steps_.clear();
  train("watched", {.scalars_every = 1, .histograms_every = 2, .activations = {"*"}});
  ASSERT_EQ(steps_.size(), plain.size());
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(steps_[i].loss, plain[i].loss, 1e-6) << i;
}

TEST(MonitorOptions, AreReadFromAJobAndRefusedWithTheirPlace) {
  const auto read = [](const std::string& text) {
    return read_settings<MonitorOptions>(ConfigNode::parse(text, "job.yaml"));
  };
  EXPECT_EQ(read("{histograms_every: 0, activations: [conv*, fc1]}"),
            (MonitorOptions{.histograms_every = 0, .activations = {"conv*", "fc1"}}));
  EXPECT_NE(testing::error_of([&] { read("{histogram_every: 5}"); }).find("did you mean 'histograms_every'?"),
            std::string::npos);
  EXPECT_NE(testing::error_of([&] { read("{scalars_every: 0}"); }).find("job.yaml:1:"), std::string::npos);
}

}  // namespace
}  // namespace starling::train
