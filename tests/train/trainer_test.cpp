#include "starling/train/loop/trainer.h"

#include <gtest/gtest.h>

#include <map>

#include "starling/base/error.h"
#include "starling/ops/api/creation.h"
#include "starling/ops/api/loss.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/runtime/compile.h"
#include "train/trainer_testing.h"

namespace starling::train {
namespace {

using testing::hash_of;
using testing::points;
using testing::quiet;
using testing::small_net;

TEST(Trainer, LearnsEvaluatesAndPredicts) {
  auto net = small_net();
  optim::Sgd optimizer(net.parameters(), {.lr = 0.2, .momentum = 0.9});
  Trainer trainer(net, optimizer, classify(), quiet({.epochs = 12, .batch = 32}));
  const auto test = points(200, 5);
  const FitResult result = trainer.fit(points(640), test);
  EXPECT_EQ(result.summary.steps, 12 * 20);
  EXPECT_GT(result.summary.metrics.at("accuracy"), 0.9);
  const Evaluation again = trainer.evaluate(test);
  EXPECT_EQ(again.metrics, result.summary.metrics);
  EXPECT_EQ(again.samples, 200);
  std::int64_t seen = 0;
  trainer.predict(test, [&](const Tensor& prediction, std::int64_t first) {
    EXPECT_EQ(first, seen);
    EXPECT_EQ(prediction.size(1), 4);
    seen += prediction.size(0);
  });
  EXPECT_EQ(seen, 200);
}

// The oracle: the same lines by hand, without a trainer.
TEST(Trainer, MakesTheBitsOfAHandWrittenLoop) {
  const auto data = points(100);
  auto net = small_net(0.3);
  optim::Sgd optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
  Trainer trainer(net, optimizer, classify(), quiet({.epochs = 3, .seed = 4, .batch = 16}));
  trainer.fit(data);

  auto by_hand = small_net(0.3);
  optim::Sgd other(by_hand.parameters(), {.lr = 0.1, .momentum = 0.9});
  auto step = compile(
      [&](const Tensor& x, const Tensor& y) {
        const Tensor loss = cross_entropy(by_hand(x), y);
        loss.backward();
        other.step();
        return loss;
      },
      {.threads = 1});
  manual_seed(4);
  Loader loader(data, {.batch = 16, .seed = 4});
  for (int epoch = 0; epoch < 3; ++epoch) {
    while (const Batch* batch = loader.next()) step(batch->fields[0], batch->fields[1]);
  }
  EXPECT_EQ(hash_of(net), hash_of(by_hand));
}

TEST(Trainer, AccumulatedBatchesMakeTheStepOfOneLargeBatch) {
  const auto data = points(70);  // batches of 8: two updates of 32 and a last one of 6
  const auto train = [&](std::int64_t batch, std::int64_t accumulate, double clip) {
    auto net = small_net();
    optim::Sgd optimizer(net.parameters(), {.lr = 0.5, .momentum = 0.9});
    Trainer trainer(net, optimizer, classify(),
                    quiet({.epochs = 2, .batch = batch, .accumulate = accumulate, .clip_norm = clip}));
    EXPECT_EQ(trainer.fit(data).summary.steps, 6);
    std::vector<double> all;
    for (const auto& p : net.parameters()) {
      for (const double v : p.to_vector()) all.push_back(v);
    }
    return all;
  };
  for (const double clip : {0.0, 0.05}) {
    const auto whole = train(32, 1, clip), parts = train(8, 4, clip);
    ASSERT_EQ(whole.size(), parts.size());
    for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(whole[i], parts[i], 1e-5) << i;
  }
  EXPECT_NE(train(32, 1, 0), train(32, 1, 0.05)) << "clipping must have done something";
}

TEST(Trainer, WeighsAccumulatedBatchesByWhatTheyCount) {
  // Ignored labels differ from batch to batch: a mean of means would be wrong.
  std::vector<float> x;
  std::vector<std::int64_t> y;
  for (int i = 0; i < 16; ++i) {
    for (int d = 0; d < 8; ++d) x.push_back(static_cast<float>((i * 7 + d * 5) % 11) / 5 - 1);
    y.push_back(i < 6 ? 9 : i % 4);
  }
  const auto data = std::make_shared<TensorDataset>(
      std::vector<Tensor>{from_host<float>(x, {16, 8}), from_host<std::int64_t>(y, {16})});
  const auto train = [&](std::int64_t batch, std::int64_t accumulate) {
    auto net = small_net();
    optim::Sgd optimizer(net.parameters(), {.lr = 0.5});
    TrainerOptions options = quiet({.batch = batch, .accumulate = accumulate});
    options.loader.shuffle = false;
    Trainer trainer(net, optimizer, classify({.ignore = 9}), options);
    const double loss = trainer.fit(data).summary.loss;
    auto all = net.parameters()[0].to_vector();
    all.push_back(loss);
    return all;
  };
  const auto whole = train(16, 1), parts = train(4, 4);
  for (std::size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(whole[i], parts[i], 1e-6) << i;
}

TEST(Trainer, FollowsItsSchedule) {
  class Halves final : public optim::Schedule {
   public:
    double factor(const optim::ScheduleMoment& moment) const override {
      EXPECT_EQ(moment.steps, 8);
      EXPECT_EQ(moment.steps_per_epoch, 4);
      return std::pow(0.5, static_cast<double>(moment.step));
    }
    void observe(double metric) override { observed.push_back(metric); }
    std::vector<double> observed;
  };
  auto net = small_net();
  optim::Sgd optimizer(net.parameters(), {.lr = 0.5});
  const auto schedule = std::make_shared<Halves>();
  Trainer trainer(net, optimizer, classify(), quiet({.epochs = 2, .batch = 16, .schedule = schedule, .watch = "loss"}));
  std::vector<double> rates;
  trainer.add(after_step([&](starling::Run& run) { rates.push_back(run.last().lr); }));
  const FitResult result = trainer.fit(points(64), points(20));
  ASSERT_EQ(rates.size(), 8U);
  for (std::size_t i = 0; i < rates.size(); ++i)
    EXPECT_DOUBLE_EQ(rates[i], 0.5 * std::pow(0.5, static_cast<double>(i)));
  EXPECT_NEAR(optimizer.lr(), 0.5, 1e-9) << "another fit begins with the rate of its own";
  ASSERT_EQ(schedule->observed.size(), 2U);
  EXPECT_EQ(schedule->observed.back(), result.summary.metrics.at("loss"));
}

TEST(Trainer, EvaluatesEveryFewStepsAndOnceAtTheEndOfAnEpoch) {
  auto net = small_net();
  optim::Sgd optimizer(net.parameters(), {.lr = 0.1});
  Trainer trainer(net, optimizer, classify(), quiet({.epochs = 2, .batch = 16, .evaluate_every = 2}));
  std::vector<std::int64_t> steps;
  trainer.add(after_evaluation([&](starling::Run& run) { steps.push_back(run.state().step); }));
  trainer.fit(points(80), points(20));
  EXPECT_EQ(steps, (std::vector<std::int64_t>{2, 4, 5, 6, 8, 10}));
}

TEST(Trainer, TrainsWithALoaderOfTheUsersOwn) {
  auto net = small_net();
  optim::Sgd optimizer(net.parameters(), {.lr = 0.1});
  Trainer trainer(net, optimizer, classify(), quiet({.epochs = 2}));
  Loader loader(points(50), {.batch = 20, .seed = 1, .drop_last = true});
  EXPECT_EQ(trainer.fit(loader, points(10)).summary.steps, 4);
}

TEST(Trainer, TellsHowLongItWaitedForData) {
  class Slow final : public Dataset {
   public:
    explicit Slow(std::shared_ptr<const Dataset> data) : data_(std::move(data)) {}
    std::int64_t size() const override { return data_->size(); }
    std::vector<TensorType> fields() const override { return data_->fields(); }
    void gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const override {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      data_->gather(rows, out);
    }

   private:
    std::shared_ptr<const Dataset> data_;
  };
  const auto share = [](std::shared_ptr<const Dataset> data) {
    auto net = small_net();
    optim::Sgd optimizer(net.parameters(), {.lr = 0.1});
    Trainer trainer(net, optimizer, classify(), quiet({.epochs = 2, .batch = 16}));
    return trainer.fit(data).summary.wait_share;
  };
  EXPECT_GT(share(std::make_shared<Slow>(points(160))), 0.5);
}

TEST(Trainer, RefusesWhatItCannotDo) {
  auto net = small_net();
  optim::Sgd optimizer(net.parameters(), {.lr = 0.1});
  EXPECT_THROW(Trainer(net, optimizer, nullptr), Error);
  EXPECT_THROW(Trainer(net, optimizer, classify(), {.batch = 0}), Error);
  EXPECT_THROW(Trainer(net, optimizer, classify(), {.accumulate = 0}), Error);
  EXPECT_THROW(Trainer(net, optimizer, classify(), {.clip_norm = -1}), Error);
  EXPECT_THROW(Trainer(net, optimizer, classify()).add(nullptr), Error);
  EXPECT_THROW(Trainer(net, optimizer, classify()).fit(data::DataSplits{}), Error);
}

TEST(Trainer, StopsOnALossThatIsNotFiniteNamingTheStep) {
  auto net = small_net();
  optim::Sgd optimizer(net.parameters(), {.lr = 1e12});
  Trainer trainer(net, optimizer, classify(), quiet({.epochs = 50, .batch = 16}));
  try {
    trainer.fit(points(64));
    FAIL() << "expected the loss to become infinite";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("expected a finite loss"), std::string::npos) << e.what();
  }
}

// Bright and dark pictures.
std::shared_ptr<const Dataset> shades(DType dtype) {
  std::vector<double> x, y;
  for (int i = 0; i < 32; ++i) {
    for (int p = 0; p < 16; ++p) x.push_back((i % 2 * 200 + (i + p) % 40) / (dtype == DType::u8 ? 1.0 : 255.0));
    y.push_back(i % 2);
  }
  return std::make_shared<TensorDataset>(
      std::vector<Tensor>{from_doubles(x, {32, 1, 4, 4}, dtype), from_doubles(y, {32}, DType::i64)});
}

nn::Sequential conv_net() {
  manual_seed(3);
  nn::Sequential net;
  net.add("conv", nn::Conv2d({.in = 1, .out = 2, .kernel = 3})).add("relu", nn::Relu()).add("flat", nn::Flatten());
  net.add("fc", nn::Linear({.in = 8, .out = 2}));
  return net;
}

TEST(Trainer, SamplesOfBytesAndOfF64BecomeF32WhereTheNetworkBegins) {
  for (const DType dtype : {DType::u8, DType::f64}) {
    auto net = conv_net();
    optim::Sgd optimizer(net.parameters(), {.lr = 0.5});
    Trainer trainer(net, optimizer, classify(), testing::quiet({.epochs = 20, .batch = 8}));
    const auto fitted = trainer.fit(shades(dtype), shades(dtype));
    EXPECT_GT(fitted.summary.metrics.at("accuracy"), 0.9) << name(dtype);
    const Tensor some = empty({2, 1, 4, 4}, dtype);
    EXPECT_EQ(trainer.predict(std::vector<Tensor>{some}).shape(), (Shape{2, 2})) << name(dtype);
  }
}

TEST(Trainer, ANetworkThatTakesBytesGetsThem) {
  class TakesBytes final : public nn::Module {
   public:
    DType seen = DType::f32;

   protected:
    Tensor forward(const Tensor& x) override {
      seen = x.dtype();
      return (*fc_)(reshape(cast(x, DType::f32), {x.size(0), 16}));
    }

   private:
    std::shared_ptr<nn::Linear> fc_ =
        add_module("fc", std::make_shared<nn::Linear>(nn::LinearOptions{.in = 16, .out = 2}));
  };
  TakesBytes net;
  optim::Sgd optimizer(net.parameters(), {.lr = 1e-5});
  Trainer(net, optimizer, classify(), testing::quiet({.epochs = 1, .batch = 8})).fit(shades(DType::u8));
  EXPECT_EQ(net.seen, DType::u8);
}

TEST(Trainer, TargetsOfF64AreRegressed) {
  auto net = testing::small_net();
  optim::Sgd optimizer(net.parameters(), {.lr = 0.05});
  Trainer trainer(net, optimizer, regress(), testing::quiet({.epochs = 2, .batch = 8}));
  std::vector<double> x(16 * 8, 0.5), y(16 * 4, 1.0);
  const auto data = std::make_shared<TensorDataset>(
      std::vector<Tensor>{from_doubles(x, {16, 8}, DType::f64), from_doubles(y, {16, 4}, DType::f64)});
  EXPECT_LT(trainer.fit(data, data).summary.metrics.at("mse"), 1.5);
}

}  // namespace
}  // namespace starling::train
