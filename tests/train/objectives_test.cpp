#include "starling/train/objectives.h"

#include <gtest/gtest.h>

#include <cmath>

#include "starling/base/error.h"
#include "starling/ops/api/shape_ops.h"
#include "starling/ops/def/apply.h"
#include "train/trainer_testing.h"

namespace starling::train {
namespace {

// Returns its input as [n, …] of a fixed shape.
class Fixed final : public nn::Module {
 public:
  explicit Fixed(Shape shape = {}) : shape_(shape) {}

 protected:
  Tensor forward(const Tensor& x) override { return shape_.empty() ? x : reshape(x, shape_); }

 private:
  Shape shape_;
};

double log_sum_exp(const std::vector<double>& v) {
  double sum = 0;
  for (const double x : v) sum += std::exp(x);
  return std::log(sum);
}

const std::vector<double> kLogits = {1, 2, -1, 0.5, 0, 3};
const std::int64_t kLabels[] = {1, 0};

double expected_loss(const std::vector<double>& weights, double smoothing, double* total) {
  double loss = 0;
  *total = 0;
  for (std::size_t row = 0; row < 2; ++row) {
    const std::vector<double> logits(kLogits.begin() + static_cast<std::ptrdiff_t>(row * 3),
                                     kLogits.begin() + static_cast<std::ptrdiff_t>(row * 3 + 3));
    const double lse = log_sum_exp(logits);
    const auto label = static_cast<std::size_t>(kLabels[row]);
    loss += (1 - smoothing) * weights[label] * (lse - logits[label]);
    for (std::size_t c = 0; c < 3; ++c) loss += smoothing / 3 * weights[c] * (lse - logits[c]);
    *total += weights[label];
  }
  return loss / *total;
}

TEST(Classify, SmoothsLabelsAndWeighsClasses) {
  Fixed net;
  const Tensor fields[] = {from_doubles(kLogits, {2, 3}), from_host<std::int64_t>(kLabels, {2})};
  double total = 0;
  const auto plain = classify()->apply(net, fields);
  EXPECT_NEAR(plain.loss.item(), expected_loss({1, 1, 1}, 0, &total), 1e-6);
  EXPECT_FALSE(plain.weight.defined());
  const auto smooth = classify({.label_smoothing = 0.2})->apply(net, fields);
  EXPECT_NEAR(smooth.loss.item(), expected_loss({1, 1, 1}, 0.2, &total), 1e-6);
  const auto weighted = classify({.label_smoothing = 0.1, .class_weights = {0.5, 2, 3}})->apply(net, fields);
  EXPECT_NEAR(weighted.loss.item(), expected_loss({0.5, 2, 3}, 0.1, &total), 1e-6);
  EXPECT_NEAR(weighted.weight.item(), total, 1e-6);
}

TEST(Classify, IgnoresALabelAndMarksItForMetrics) {
  Fixed net;
  const std::int64_t labels[] = {1, 9};
  const Tensor fields[] = {from_doubles(kLogits, {2, 3}), from_host<std::int64_t>(labels, {2})};
  const auto out = classify({.ignore = 9})->apply(net, fields);
  EXPECT_NEAR(out.loss.item(), log_sum_exp({1, 2, -1}) - 2, 1e-6);
  EXPECT_EQ(out.weight.item(), 1);
  EXPECT_EQ(out.target.to_vector(), (std::vector<double>{1, -1}));
  const auto weighted = classify({.class_weights = {1, 4, 1}, .ignore = 9})->apply(net, fields);
  EXPECT_NEAR(weighted.loss.item(), log_sum_exp({1, 2, -1}) - 2, 1e-6);
  EXPECT_EQ(weighted.weight.item(), 4);
}

TEST(Classify, GivesThePredictionsOfPixelsWithTheirClassesLast) {
  Fixed net;
  const Tensor fields[] = {normal({2, 3, 4, 5}), zeros({2, 4, 5}, DType::i64)};
  const auto out = classify()->apply(net, fields);
  EXPECT_EQ(out.prediction.shape(), (Shape{2, 4, 5, 3}));
}

TEST(Classify, SaysWhatItExpects) {
  Fixed net;
  const Tensor one[] = {zeros({2, 3})};
  EXPECT_THROW(classify()->apply(net, one), Error);
  const Tensor floats[] = {zeros({2, 3}), zeros({2})};
  EXPECT_THROW(classify()->apply(net, floats), Error);
  const Tensor fields[] = {zeros({2, 3}), zeros({2}, DType::i64)};
  EXPECT_THROW(classify({.class_weights = {1, 2}})->apply(net, fields), Error);
  EXPECT_THROW(classify({.label_smoothing = 1}), Error);
}

TEST(MultiLabel, IsTheMeanOfBinaryCrossEntropies) {
  Fixed net;
  const std::int64_t labels[] = {1, 0, 0, 1, 1, 0};
  const Tensor fields[] = {from_doubles(kLogits, {2, 3}), from_host<std::int64_t>(labels, {2, 3})};
  double sum = 0;
  for (std::size_t i = 0; i < 6; ++i) {
    const double p = 1 / (1 + std::exp(-kLogits[i]));
    sum -= labels[i] == 1 ? std::log(p) : std::log(1 - p);
  }
  EXPECT_NEAR(multi_label()->apply(net, fields).loss.item(), sum / 6, 1e-6);
}

TEST(NextToken, PredictsWhatFollowsFromOneFieldOrTwo) {
  // Logits that favour token (id + 1) % 4.
  class Next final : public nn::Module {
   protected:
    Tensor forward(const Tensor& ids) override {
      std::vector<double> logits(static_cast<std::size_t>(ids.numel() * 4), 0);
      const auto values = ids.to_vector();
      for (std::size_t i = 0; i < values.size(); ++i) logits[i * 4 + (static_cast<std::size_t>(values[i]) + 1) % 4] = 5;
      return from_doubles(logits, {ids.size(0), ids.size(1), 4});
    }
  };
  Next net;
  const std::int64_t both[] = {0, 1, 2, 3, 2, 3, 0, 0}, ids[] = {0, 1, 2, 2, 3, 0}, next[] = {1, 2, 3, 3, 0, 0};
  const Tensor one[] = {from_host<std::int64_t>(both, {2, 4})};
  const Tensor two[] = {from_host<std::int64_t>(ids, {2, 3}), from_host<std::int64_t>(next, {2, 3})};
  const double right = std::log(std::exp(5) + 3) - 5, wrong = right + 5;
  const auto out = next_token()->apply(net, one);
  EXPECT_NEAR(out.loss.item(), (5 * right + wrong) / 6, 1e-5);
  EXPECT_EQ(out.target.to_vector(), (std::vector<double>{1, 2, 3, 3, 0, 0}));
  EXPECT_NEAR(next_token()->apply(net, two).loss.item(), (5 * right + wrong) / 6, 1e-5);
  const auto ignoring = next_token({.ignore = 0})->apply(net, two);
  EXPECT_NEAR(ignoring.loss.item(), right, 1e-5);
  EXPECT_EQ(ignoring.weight.item(), 4);
}

TEST(Reconstruct, ComparesWithTheCleanSampleAndAddsNoiseWhileTraining) {
  Fixed net({2, 6});
  const Tensor x = from_doubles(std::vector<double>(12, 0.5), {2, 2, 3});
  const Tensor fields[] = {x};
  const auto noisy = reconstruct({.noise = ReconstructOptions::Noise::gaussian, .amount = 0.3});
  manual_seed(1);
  EXPECT_GT(noisy->apply(net, fields).loss.item(), 0.01);
  net.eval();
  EXPECT_EQ(noisy->apply(net, fields).loss.item(), 0);
  net.train();
  const auto masked = reconstruct({.noise = ReconstructOptions::Noise::mask, .amount = 0.5});
  const double loss = masked->apply(net, fields).loss.item() * 12 / 0.25;  // how many were masked
  EXPECT_NEAR(loss, std::round(loss), 1e-4);
  EXPECT_GT(loss, 0.5);
  EXPECT_LT(loss, 11.5);
}

TEST(Reconstruct, OfLogits) {
  Fixed net;
  const Tensor x = from_doubles(std::vector<double>{0.2, 0.9}, {1, 2});
  const Tensor fields[] = {x};
  const auto out = reconstruct({.loss = ReconstructOptions::Loss::bce})->apply(net, fields);
  double sum = 0;
  for (const double v : {0.2, 0.9}) {
    const double p = 1 / (1 + std::exp(-static_cast<double>(static_cast<float>(v))));
    sum -= v * std::log(p) + (1 - v) * std::log(1 - p);
    EXPECT_NEAR(out.prediction.to_vector()[v == 0.2 ? 0 : 1], p, 1e-6);
  }
  EXPECT_NEAR(out.loss.item(), sum / 2, 1e-6);
}

TEST(Regress, HasItsLosses) {
  Fixed net;
  const std::int64_t targets[] = {0, 0};
  const Tensor fields[] = {from_doubles(std::vector<double>{0.5, 3}, {2, 1}), from_host<std::int64_t>(targets, {2})};
  using Loss = RegressOptions::Loss;
  const auto loss = [&](Loss which) { return regress({.loss = which})->apply(net, fields).loss.item(); };
  EXPECT_NEAR(loss(Loss::mse), (0.25 + 9) / 2, 1e-6);
  EXPECT_NEAR(loss(Loss::l1), 1.75, 1e-6);
  EXPECT_NEAR(loss(Loss::huber), (0.125 + 2.5) / 2, 1e-6);
  EXPECT_NEAR(loss(Loss::smooth_l1), (0.125 + 2.5) / 2, 1e-6);
}

TEST(OwnLoss, IsWhatTheNetworkSays) {
  class Own final : public nn::Module, public nn::OwnLoss {
   public:
    nn::OwnLoss::Outputs own_loss(std::span<const Tensor> fields) override {
      return {.loss = from_doubles(std::vector<double>{7}, {}), .prediction = fields[0]};
    }

   protected:
    Tensor forward(const Tensor& x) override { return x; }
  };
  Own net;
  const Tensor fields[] = {zeros({2, 3}), zeros({2}, DType::i64)};
  EXPECT_EQ(own_loss()->apply(net, fields).loss.item(), 7);
  EXPECT_EQ(classify()->apply(net, fields).loss.item(), 7);
  Fixed without;
  EXPECT_THROW(own_loss()->apply(without, fields), Error);
}

TEST(Objectives, AreMadeByName) {
  for (const char* name :
       {"classify", "multi_label", "next_token", "reconstruct", "regress", "own_loss", "elbo", "seq2seq"}) {
    const auto objective = objective_kinds().by_name(name).make();
    EXPECT_NO_THROW(metrics_by_name(objective->metrics())) << name;
  }
  const auto yaml = ConfigNode::parse("{name: classify, label_smoothing: 0.1, ignore: 255}", "test");
  EXPECT_NO_THROW(objective_kinds().choose(yaml).make());
}

TEST(Objectives, ClassifyTakesProbabilitiesThatMixedLabelsAre) {
  Fixed net;
  const Tensor logits = from_doubles(kLogits, {2, 3});
  const Tensor sure = from_doubles(std::vector<double>{0, 1, 0, 1, 0, 0}, {2, 3});
  const Tensor labels = from_host<std::int64_t>(std::vector<std::int64_t>{1, 0}, {2});
  const auto by_number = classify()->apply(net, std::vector<Tensor>{logits, labels});
  const auto by_probability = classify()->apply(net, std::vector<Tensor>{logits, sure});
  EXPECT_NEAR(by_probability.loss.item(), by_number.loss.item(), 1e-6);
  EXPECT_EQ(by_probability.target.to_vector(), (std::vector<double>{1, 0}));
  EXPECT_THROW(classify()->apply(net, std::vector<Tensor>{logits, from_doubles(kLogits, {3, 2})}), Error);
}

TEST(Objectives, RegressLearnsStandardisedAndTellsInUnits) {
  Fixed net;
  const Tensor learned = from_doubles(std::vector<double>{1, -1, 0, 2}, {2, 2});
  const Tensor target = from_doubles(std::vector<double>{120, 7, 100, 11}, {2, 2});
  const auto objective = regress({.target_means = {100, 8}, .target_deviations = {10, 1}});
  const auto out = objective->apply(net, std::vector<Tensor>{learned, target});
  EXPECT_EQ(out.prediction.to_vector(), (std::vector<double>{110, 7, 100, 10}));
  EXPECT_EQ(out.target.to_vector(), target.to_vector());
  EXPECT_NEAR(out.loss.item(), (1 + 0 + 0 + 1) / 4.0, 1e-6);
  EXPECT_EQ(objective->predict(net, std::vector<Tensor>{learned}).to_vector(), out.prediction.to_vector());
  const auto judged = objective->judge(net, std::vector<Tensor>{out.prediction, target});
  EXPECT_EQ(judged.prediction.to_vector(), out.prediction.to_vector());
  EXPECT_NEAR(judged.loss.item(), out.loss.item(), 1e-6);
  EXPECT_THROW(regress({.target_means = {1}, .target_deviations = {0}}), Error);
  EXPECT_THROW(regress({.target_means = {1}}), Error);
}

}  // namespace
}  // namespace starling::train
