// Every metric against an independent computation, in one batch and in uneven pieces in another order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "starling/base/error.h"
#include "starling/train/metric.h"

namespace starling::train {
namespace {

struct Sample {
  std::vector<float> logits;
  std::int64_t label;
};

std::vector<Sample> samples(int count, int classes, double ignored = 0, unsigned seed = 1) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> label(0, classes - 1), coarse(-3, 3);
  std::uniform_real_distribution<double> share(0, 1);
  std::vector<Sample> all;
  for (int i = 0; i < count; ++i) {
    Sample sample{{}, share(random) < ignored ? -100 : label(random)};
    // Coarse numbers, so that there are ties.
    for (int c = 0; c < classes; ++c)
      sample.logits.push_back(static_cast<float>(coarse(random)) / 2 + (c == sample.label ? 1.0F : 0.0F));
    all.push_back(sample);
  }
  return all;
}

Judged judged(std::span<const Sample> part) {
  std::vector<float> logits;
  std::vector<std::int64_t> labels;
  for (const auto& sample : part) {
    logits.insert(logits.end(), sample.logits.begin(), sample.logits.end());
    labels.push_back(sample.label);
  }
  const auto n = static_cast<std::int64_t>(part.size());
  return {.prediction = from_host<float>(logits, {n, static_cast<std::int64_t>(part[0].logits.size())}),
          .target = from_host<std::int64_t>(labels, {n}),
          .fields = {}};
}

std::unique_ptr<Metric> metric(const std::string& yaml) {
  return metric_kinds().choose(ConfigNode::parse(yaml, "test")).make();
}

// Value over all samples, checked to be the same for pieces in another order.
double value_of(const std::string& yaml, const std::vector<Sample>& all) {
  const auto whole = metric(yaml), pieces = metric(yaml);
  EXPECT_TRUE(std::isnan(whole->value())) << yaml;
  whole->add(judged(all));
  const std::size_t cut = all.size() / 3;
  pieces->add(judged(std::span(all).subspan(cut)));
  pieces->add(judged(std::span(all).first(cut)));
  EXPECT_NEAR(whole->value(), pieces->value(), 1e-12) << yaml;
  const double first = whole->value();
  whole->reset();
  whole->add(judged(all));
  EXPECT_EQ(whole->value(), first) << "after a reset";
  return first;
}

// Class indices by logit, stable for ties.
std::vector<int> ranked(const std::vector<float>& logits) {
  std::vector<int> order(logits.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  return order;
}

TEST(Metrics, AccuracyAndTopKCountLabelsAmongTheLargest) {
  const auto all = samples(500, 6, 0.1);
  for (const int k : {1, 2, 5}) {
    double hits = 0, count = 0;
    for (const auto& sample : all) {
      if (sample.label < 0) continue;
      const auto order = ranked(sample.logits);
      hits += std::find(order.begin(), order.begin() + k, sample.label) != order.begin() + k ? 1 : 0;
      ++count;
    }
    EXPECT_NEAR(value_of("{name: top_k, k: " + std::to_string(k) + "}", all), hits / count, 1e-12);
    if (k == 1) {
      EXPECT_NEAR(value_of("{name: accuracy}", all), hits / count, 1e-12);
    }
  }
}

TEST(Metrics, NanLogitsAreNeverHits) {
  const float nan = std::nanf("");
  const auto share = [&](const std::string& yaml, const std::vector<float>& logits, std::int64_t label) {
    const std::vector<Sample> one{{logits, label}};
    const auto judge = metric(yaml);
    judge->add(judged(one));
    return judge->value();
  };
  for (const char* yaml : {"{name: accuracy}", "{name: top_k, k: 1}", "{name: word_accuracy}"}) {
    EXPECT_EQ(share(yaml, {nan, nan, nan}, 0), 0) << yaml;
    EXPECT_EQ(share(yaml, {nan, 1, 2}, 0), 0) << yaml;
    EXPECT_EQ(share(yaml, {nan, 1, 2}, 2), 0) << yaml << ": what cannot be told may be larger";
    EXPECT_EQ(share(yaml, {0, 1, 2}, 2), 1) << yaml;
  }
  EXPECT_EQ(share("{name: top_k, k: 2}", {nan, 1, 2}, 2), 1);
  EXPECT_EQ(share("{name: top_k, k: 2}", {nan, 1, 2}, 0), 0);
}

TEST(Metrics, PrecisionRecallAndF1ByDefinition) {
  const auto all = samples(300, 5, 0.05);
  double macro[3] = {0, 0, 0}, tp = 0, fp = 0, fn = 0;
  for (int c = 0; c < 5; ++c) {
    double own[3] = {0, 0, 0};  // true positives, false positives, false negatives
    for (const auto& sample : all) {
      if (sample.label < 0) continue;
      const bool taken = ranked(sample.logits)[0] == c, is = sample.label == c;
      own[0] += taken && is ? 1 : 0;
      own[1] += taken && !is ? 1 : 0;
      own[2] += !taken && is ? 1 : 0;
    }
    const double precision = own[0] / (own[0] + own[1]), recall = own[0] / (own[0] + own[2]);
    macro[0] += precision / 5;
    macro[1] += recall / 5;
    macro[2] += 2 * precision * recall / (precision + recall) / 5;
    tp += own[0];
    fp += own[1];
    fn += own[2];
  }
  EXPECT_NEAR(value_of("{name: precision}", all), macro[0], 1e-12);
  EXPECT_NEAR(value_of("{name: recall}", all), macro[1], 1e-12);
  EXPECT_NEAR(value_of("{name: f1}", all), macro[2], 1e-12);
  EXPECT_NEAR(value_of("{name: f1, average: micro}", all), 2 * tp / (2 * tp + fp + fn), 1e-12);
  EXPECT_NEAR(value_of("{name: precision, average: micro}", all), tp / (tp + fp), 1e-12);
}

// By hand: precisions 2/3, 0, 2/3; recalls 1, 0, 2/3; F1 4/5, 0, 2/3.
TEST(Metrics, AgreeWithNumbersWorkedOutByHand) {
  const int labels[] = {0, 1, 2, 0, 1, 2, 2}, predicted[] = {0, 2, 1, 0, 0, 2, 2};
  std::vector<Sample> all;
  for (int i = 0; i < 7; ++i) {
    Sample sample{{0, 0, 0}, labels[i]};
    sample.logits[static_cast<std::size_t>(predicted[i])] = 1;
    all.push_back(sample);
  }
  EXPECT_NEAR(value_of("{name: precision}", all), 4.0 / 9, 1e-12);
  EXPECT_NEAR(value_of("{name: recall}", all), 5.0 / 9, 1e-12);
  EXPECT_NEAR(value_of("{name: f1}", all), 22.0 / 45, 1e-12);
  EXPECT_NEAR(value_of("{name: accuracy}", all), 4.0 / 7, 1e-12);
}

TEST(Metrics, ConfusionHasATable) {
  const auto confusion = metric("{name: confusion}");
  const std::vector<Sample> all = {{{1, 0}, 0}, {{1, 0}, 1}, {{0, 1}, 1}, {{0, 1}, 1}, {{0, 1}, -1}};
  confusion->add(judged(all));
  EXPECT_DOUBLE_EQ(confusion->value(), 0.75);
  EXPECT_EQ(confusion->table({}), "label     0     1\n    0     1     0\n    1     1     2\n");
  EXPECT_EQ(confusion->table({"cat", "dog"}), "label   cat   dog\n  cat     1     0\n  dog     1     2\n");
  EXPECT_THROW(confusion->add(judged(std::vector<Sample>{{{0, 1}, 2}})), Error);
}

// All pairs of a positive and a negative sample.
double pairs_won(const std::vector<std::pair<double, bool>>& scores) {
  double won = 0, pairs = 0;
  for (const auto& [a, positive] : scores) {
    for (const auto& [b, other] : scores) {
      if (!positive || other) continue;
      ++pairs;
      won += a > b ? 1 : a == b ? 0.5 : 0;
    }
  }
  return won / pairs;
}

TEST(Metrics, AucIsTheShareOfPairsInOrder) {
  const auto all = samples(200, 2, 0.1);
  std::vector<std::pair<double, bool>> scores;
  for (const auto& sample : all) {
    if (sample.label >= 0) scores.emplace_back(sample.logits[1] - sample.logits[0], sample.label == 1);
  }
  EXPECT_NEAR(value_of("{name: auc}", all), pairs_won(scores), 1e-12);
  EXPECT_NEAR(value_of("{name: auc, bins: 10000}", all), pairs_won(scores), 1e-3);
}

TEST(Metrics, AucOfScoresThatAreNoNumbersIsNone) {
  auto all = samples(50, 2);
  all[20].logits[1] = NAN;
  for (const char* yaml : {"{name: auc}", "{name: auc, bins: 100}"}) {
    const auto auc = metric(yaml);
    auc->add(judged(all));
    EXPECT_TRUE(std::isnan(auc->value())) << yaml;
    auc->reset();
    auc->add(judged(samples(50, 2)));
    EXPECT_FALSE(std::isnan(auc->value())) << yaml;
  }
}

TEST(Metrics, AucOfOneClassAgainstTheOthersGoesByItsProbability) {
  auto all = samples(200, 3);
  std::mt19937 random(5);
  std::normal_distribution<float> noise;  // no ties
  std::vector<std::pair<double, bool>> scores;
  for (auto& sample : all) {
    double sum = 0;
    for (float& v : sample.logits) sum += std::exp(static_cast<double>(v += noise(random)));
    scores.emplace_back(std::exp(static_cast<double>(sample.logits[2])) / sum, sample.label == 2);
  }
  EXPECT_NEAR(value_of("{name: auc, positive: 2}", all), pairs_won(scores), 1e-12);
}

TEST(Metrics, LossAndPerplexityWeighBatches) {
  for (const char* name : {"loss", "perplexity"}) {
    const auto one = metric(std::string("{name: ") + name + "}");
    EXPECT_FALSE(one->higher_is_better());
    one->add({.prediction = {}, .target = {}, .fields = {}, .loss = 2, .weight = 3});
    one->add({.prediction = {}, .target = {}, .fields = {}, .loss = 1, .weight = 1});
    const double mean = (2.0 * 3 + 1) / 4;
    EXPECT_NEAR(one->value(), std::string(name) == "loss" ? mean : std::exp(mean), 1e-12);
  }
}

TEST(Metrics, ErrorsOfNumbers) {
  std::mt19937 random(2);
  std::normal_distribution<double> normal(1000, 2);
  std::vector<double> targets, predictions;
  for (int i = 0; i < 300; ++i) {
    targets.push_back(static_cast<float>(normal(random)));
    predictions.push_back(static_cast<float>(targets.back() + (normal(random) - 1000) / 3));
  }
  const auto n = static_cast<std::int64_t>(targets.size());
  const double mean = std::accumulate(targets.begin(), targets.end(), 0.0) / 300;
  double squares = 0, absolute = 0, spread = 0;
  for (std::size_t i = 0; i < 300; ++i) {
    squares += std::pow(predictions[i] - targets[i], 2);
    absolute += std::abs(predictions[i] - targets[i]);
    spread += std::pow(targets[i] - mean, 2);
  }
  const Judged batch{
      .prediction = from_doubles(predictions, {n, 1}), .target = from_doubles(targets, {n}), .fields = {}};
  const auto value = [&](const char* name) {
    const auto one = metric(std::string("{name: ") + name + "}");
    one->add(batch);
    return one->value();
  };
  EXPECT_NEAR(value("mse"), squares / 300, 1e-9);
  EXPECT_NEAR(value("mae"), absolute / 300, 1e-9);
  EXPECT_NEAR(value("r2"), 1 - squares / spread, 1e-9);
}

TEST(Metrics, WordAccuracyNeedsEveryCountedPosition) {
  // Three words of two letters out of {0, 1}; the second letter of the last one is padding.
  const float logits[] = {1, 0, 0, 1, /**/ 1, 0, 1, 0, /**/ 0, 1, 1, 0};
  const std::int64_t labels[] = {0, 1, 0, 1, 1, -1};
  const auto words = metric("{name: word_accuracy}");
  words->add({.prediction = from_host<float>(logits, {3, 2, 2}),
              .target = from_host<std::int64_t>(labels, {3, 2}),
              .fields = {}});
  EXPECT_NEAR(words->value(), 2.0 / 3, 1e-12);
}

TEST(Metrics, MultiLabelAccuracyCountsEveryLabel) {
  const float logits[] = {1, -1, 2, -0.5F};
  const float labels[] = {1, 0, 0, 1};
  const auto right = metric("{name: label_accuracy}");
  right->add(
      {.prediction = from_host<float>(logits, {2, 2}), .target = from_host<float>(labels, {2, 2}), .fields = {}});
  EXPECT_DOUBLE_EQ(right->value(), 0.5);
}

TEST(Metrics, SayWhatTheyCannotJudge) {
  const auto accuracy = metric("{name: accuracy}");
  EXPECT_THROW(accuracy->add({.prediction = {}, .target = {}, .fields = {}}), Error);
  const Judged wrong{.prediction = zeros({3, 2}), .target = zeros({3}), .fields = {}};
  EXPECT_THROW(accuracy->add(wrong), Error);
  EXPECT_THROW(metrics_by_name({"acuracy"}), Error);
}

}  // namespace
}  // namespace starling::train
