#include "starling/train/callback.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "starling/autograd/autograd.h"
#include "starling/base/error.h"
#include "starling/ops/api/loss.h"
#include "starling/train/callbacks/checkpoints.h"
#include "starling/train/callbacks/ready_made.h"
#include "train/trainer_testing.h"

namespace starling::train {
namespace {

using testing::hash_of;
using testing::points;
using testing::quiet;
using testing::small_net;

// Records the order of events.
class Diary final : public Callback {
 public:
  std::string name() const override { return "diary"; }
  void attach(starling::Run&) override { lines.push_back("attach"); }
  void begin(starling::Run& run) override { lines.push_back("begin " + std::to_string(run.state().step)); }
  StepWants before(starling::Run& run) override {
    lines.push_back("before " + std::to_string(run.state().step));
    return {};
  }
  void step(starling::Run& run) override { lines.push_back("step " + std::to_string(run.state().step)); }
  void evaluated(starling::Run& run) override { lines.push_back("evaluated " + std::to_string(run.state().step)); }
  void epoch(starling::Run& run) override { lines.push_back("epoch " + std::to_string(run.state().position.epoch)); }
  void settled(starling::Run& run) override { lines.push_back("settled " + std::to_string(run.state().step)); }
  void end(starling::Run&) override { lines.push_back("end"); }
  std::vector<std::string> lines;
};

struct Parts {
  nn::Sequential net = small_net();
  optim::Sgd optimizer{net.parameters(), {.lr = 0.1, .momentum = 0.9}};
};

TEST(Callback, HearsOfEverythingInOrder) {
  Parts s;
  Trainer trainer(s.net, s.optimizer, classify(), quiet({.epochs = 2, .steps = 3, .batch = 16}));
  const auto diary = std::make_shared<Diary>();
  trainer.add(diary).fit(points(32), points(10));
  EXPECT_EQ(diary->lines, (std::vector<std::string>{"attach", "begin 0", "before 0", "step 1", "settled 1", "before 1",
                                                    "step 2", "settled 2", "evaluated 2", "epoch 1", "settled 2",
                                                    "before 2", "step 3", "settled 3", "evaluated 3", "end"}));
}

TEST(Callback, LearnsTheLossOfEveryStepThatItDoesNotLookAt) {
  class Listens final : public Callback {
   public:
    std::string name() const override { return "listens"; }
    bool looks_at_loss(std::int64_t) const override { return false; }
    void learned(starling::Run& run, const StepLoss& loss) override {
      steps.push_back(loss.step);
      samples.push_back(loss.samples);
      losses.push_back(loss.loss);
      EXPECT_LE(loss.step, run.state().step);
    }
    void epoch(starling::Run& run) override {
      EXPECT_EQ(static_cast<std::int64_t>(steps.size()), run.state().step) << "all are known at the end of an epoch";
    }
    std::vector<std::int64_t> steps, samples;
    std::vector<double> losses;
  };
  Parts s;
  std::vector<double> looked_at;
  Trainer trainer(s.net, s.optimizer, classify(), quiet({.epochs = 2, .batch = 16}));
  const auto listens = std::make_shared<Listens>();
  trainer.add(listens).add(after_step([&](starling::Run& run) { looked_at.push_back(run.last().loss); }));
  trainer.fit(points(40));
  EXPECT_EQ(listens->steps, (std::vector<std::int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(listens->samples, (std::vector<std::int64_t>{16, 16, 8, 16, 16, 8}));
  EXPECT_EQ(listens->losses, looked_at);
}

TEST(Callback, MayEndTheRun) {
  Parts s;
  Trainer trainer(s.net, s.optimizer, classify(), quiet({.epochs = 5, .batch = 16}));
  trainer.add(after_step([](starling::Run& run) {
    if (run.state().step == 3) run.stop("enough");
  }));
  const FitResult result = trainer.fit(points(64));
  EXPECT_EQ(result.summary.steps, 3);
  EXPECT_EQ(result.ended_by, "enough");
  EXPECT_FALSE(result.interrupted);
}

TEST(Callback, GetsGradientsActivationsAndPredictionsOfTheStepsItAsksFor) {
  class Asks final : public Callback {
   public:
    std::string name() const override { return "asks"; }
    StepWants before(starling::Run& run) override {
      const bool now = run.state().step == 2;
      if (now) {
        weights = run.net().parameters()[0].to_vector();
      }
      return {.gradients = now, .activations = now, .prediction = now};
    }
    void step(starling::Run& run) override {
      if (run.state().step != 3) {
        EXPECT_TRUE(run.last().values.gradients.empty());
        EXPECT_TRUE(run.last().values.activations.empty());
        return;
      }
      values = run.last().values;
      fields.assign(run.last().fields.begin(), run.last().fields.end());
      for (auto& field : fields) {
        Tensor copy = empty(field.shape(), field.dtype());
        copy_into(copy, field);
        field = copy;
      }
      after = run.net().parameters()[0].to_vector();
    }
    StepValues values;
    std::vector<Tensor> fields;
    std::vector<double> weights, after;
  };
  for (const std::int64_t accumulate : {1, 2}) {
    auto net = small_net();
    optim::Sgd optimizer(net.parameters(), {.lr = 0.1});
    const auto asks = std::make_shared<Asks>();
    Trainer trainer(net, optimizer, classify(), quiet({.epochs = 1, .batch = 16, .accumulate = accumulate}));
    trainer.add(asks).fit(points(128));
    ASSERT_EQ(asks->values.gradients.size(), 4U);
    EXPECT_EQ(asks->values.gradients[0].name, "fc1.weight");
    const auto gradient = asks->values.gradients[0].tensor.to_vector();
    // Plain SGD: the update reveals the gradient.
    for (std::size_t i = 0; i < gradient.size(); ++i)
      EXPECT_NEAR(asks->after[i], asks->weights[i] - 0.1 * gradient[i], 1e-6) << accumulate;
    std::vector<std::string> names;
    for (const auto& [name, value] : asks->values.activations) names.push_back(name);
    EXPECT_EQ(names, (std::vector<std::string>{"fc1", "relu", "fc2"}));
    const auto logits = asks->values.activations.back().tensor.to_vector();
    EXPECT_EQ(logits, asks->values.prediction.to_vector());
    EXPECT_EQ(logits.size(), 16U * 4U);
    for (const double v : asks->values.activations[1].tensor.to_vector()) EXPECT_GE(v, 0);
  }
}

TEST(Callback, AskingChangesNoBits) {
  class Asks final : public Callback {
   public:
    std::string name() const override { return "asks"; }
    StepWants before(starling::Run& run) override {
      return {.gradients = run.state().step % 2 == 0, .activations = true};
    }
  };
  const auto train = [](bool asking) {
    auto net = small_net(0.3);
    optim::Sgd optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    Trainer trainer(net, optimizer, classify(), quiet({.epochs = 2, .batch = 16}));
    if (asking) trainer.add(std::make_shared<Asks>());
    trainer.fit(points(100));
    return hash_of(net);
  };
  EXPECT_EQ(train(true), train(false));
}

TEST(EarlyStop, EndsWhenAMetricGetsNoBetter) {
  Parts s;
  s.optimizer.set_lr(0);  // the metric cannot improve
  Trainer trainer(s.net, s.optimizer, classify(), quiet({.epochs = 50, .batch = 16}));
  trainer.add(early_stop({.patience = 3}));
  const FitResult result = trainer.fit(points(32), points(10));
  EXPECT_EQ(result.summary.steps, 5 * 2);  // the first is the best; patience is three more
  EXPECT_NE(result.ended_by.find("accuracy"), std::string::npos) << result.ended_by;
}

TEST(EarlyStop, KnowsThatLossesShouldFall) {
  Parts s;
  s.optimizer.set_lr(0.01);
  Trainer trainer(s.net, s.optimizer, classify(), quiet({.epochs = 4, .batch = 16}));
  trainer.add(early_stop({.metric = "loss", .patience = 0}));
  EXPECT_EQ(trainer.fit(points(320), points(50)).ended_by, "");
}

TEST(EarlyStop, TellsThatAMetricWasNeverANumber) {
  for (const std::int64_t patience : {2, 9}) {
    Parts s;
    std::ostringstream told;
    TrainerOptions options = quiet({.epochs = 5, .batch = 16});
    options.progress = {.mode = ProgressMode::plain, .out = &told};
    Trainer trainer(s.net, s.optimizer, classify(), options);
    trainer.add(after_evaluation([](starling::Run& run) { run.report("mine", NAN); }));
    trainer.add(early_stop({.metric = "mine", .patience = patience, .lowest = true}));
    const std::string ended = trainer.fit(points(32), points(10)).ended_by;
    EXPECT_EQ(ended, patience == 2 ? "early_stop: mine was infinite or NaN in all of 3 evaluations" : "");
    EXPECT_NE(told.str().find("early_stop: 'mine' was infinite or NaN in every evaluation"), std::string::npos);
    EXPECT_EQ(told.str().find("no evaluation told"), std::string::npos) << told.str();
  }
}

TEST(EarlyStop, NamesAMetricThatIsNotThere) {
  Parts s;
  Trainer trainer(s.net, s.optimizer, classify(), quiet({.epochs = 1, .batch = 16}));
  trainer.add(early_stop({.metric = "acuracy"}));
  EXPECT_THROW(trainer.fit(points(32), points(10)), Error);
}

TEST(AverageWeights, IsTheMeanOfTheWeightsThatItTook) {
  Parts s;
  Trainer trainer(s.net, s.optimizer, classify(), quiet({.epochs = 1, .batch = 16}));
  std::vector<double> mean(8 * 32, 0);
  trainer.add(average_weights({.decay = 0, .from_step = 2, .keep = true}));
  trainer.add(after_step([&](starling::Run& run) {
    if (run.state().step < 2) return;
    const auto now = run.net().parameters()[0].to_vector();
    for (std::size_t i = 0; i < mean.size(); ++i) mean[i] += now[i] / 3;
  }));
  const FitResult result = trainer.fit(points(64), points(40));
  EXPECT_TRUE(result.summary.metrics.contains("swa_accuracy"));
  const auto kept = s.net.parameters()[0].to_vector();
  for (std::size_t i = 0; i < mean.size(); ++i) EXPECT_NEAR(kept[i], mean[i], 1e-6);
}

TEST(AverageWeights, EvaluatesWithTheAverageAndTrainsOnWithoutIt) {
  const auto train = [](bool averaged) {
    Parts s;
    Trainer trainer(s.net, s.optimizer, classify(), quiet({.epochs = 2, .batch = 16}));
    if (averaged) trainer.add(average_weights({.decay = 0.9}));
    const FitResult result = trainer.fit(points(64), points(40));
    EXPECT_EQ(result.summary.metrics.contains("ema_loss"), averaged);
    if (averaged) {
      EXPECT_NE(result.summary.metrics.at("ema_loss"), result.summary.metrics.at("loss"));
    }
    return hash_of(s.net);
  };
  EXPECT_EQ(train(true), train(false));
}

TEST(TraceSteps, WritesAChromeTrace) {
  testing::TestFolder folder("trace-steps");
  Parts s;
  Trainer trainer(s.net, s.optimizer, classify(), quiet({.epochs = 1, .batch = 16}));
  trainer.add(trace_steps({.file = folder.path() / "trace.json", .from = 1, .steps = 2})).fit(points(64));
  std::ifstream in(folder.path() / "trace.json");
  const auto json = nlohmann::json::parse(in);
  EXPECT_FALSE((json.is_array() ? json : json.at("traceEvents")).empty());
}

TEST(Callback, StatesOfOneNameAreRefused) {
  Parts s;
  Trainer trainer(s.net, s.optimizer, classify(), quiet({.epochs = 1}));
  trainer.add(early_stop({.patience = 1})).add(early_stop({.patience = 2}));
  EXPECT_THROW(trainer.fit(points(32), points(10)), Error);
}

}  // namespace
}  // namespace starling::train
