#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "starling/base/error.h"
#include "starling/train/metric_rows.h"

namespace starling {
namespace {

struct AucOptions {
  std::int64_t bins = 0;
  std::int64_t positive = 1;
  static Settings settings() {
    return {setting("bins", &AucOptions::bins,
                    "0: exact, keeping every score; else so many bins of probability, in constant memory",
                    {.min = 0, .max = 1e7}),
            setting("positive", &AucOptions::positive, "the class that counts as positive", {.min = 0})};
  }
};

// The area under the ROC curve: how often a positive sample scores above a negative one, ties counting half. Scores are
// logits [n] of labels 0 and 1, or of [n, classes] the probability of one class against the others.
class Auc final : public Metric {
 public:
  explicit Auc(const AucOptions& options) : options_(options) { reset(); }

  void add(const Judged& batch) override {
    check(batch.prediction.defined() && batch.target.defined(),
          "[auc] expected an objective with predictions and targets, got one without");
    if (batch.prediction.numel() == batch.target.numel()) {
      train::expect_numbers(batch, "auc");
      const auto labels = train::numbers_of(batch.target);
      const auto* logits = batch.prediction.data<float>();
      for (std::size_t i = 0; i < labels.size(); ++i) {
        if (labels[i] >= 0) take(static_cast<double>(logits[i]), labels[i] > 0.5);
      }
      return;
    }
    const std::int64_t classes = batch.prediction.size(-1);
    check(options_.positive < classes, "[auc] expected a positive class below {}, got {}", classes, options_.positive);
    train::for_each_label(batch, "auc", [&](const float* logits, std::int64_t label) {
      take(log_odds(logits, classes), label == options_.positive);
    });
  }

  double value() const override {
    if (undefined_) return NAN;
    if (options_.bins > 0) return binned();
    auto scores = scores_;
    std::sort(scores.begin(), scores.end());
    double below = 0, won = 0, positives = 0;
    for (std::size_t i = 0; i < scores.size();) {
      double tied[2] = {0, 0};
      const double score = scores[i].first;
      for (; i < scores.size() && scores[i].first == score; ++i) ++tied[scores[i].second ? 1 : 0];
      won += tied[1] * (below + tied[0] / 2);
      below += tied[0];
      positives += tied[1];
    }
    return train::ratio(won, positives * below);
  }

  void reset() override {
    undefined_ = false;
    scores_.clear();
    for (auto& counts : counts_) counts.assign(static_cast<std::size_t>(options_.bins), 0);
  }

  // Whether a score was no number, then the counts of both classes, or the scores with their labels.
  std::optional<std::vector<double>> sums() const override {
    std::vector<double> all = {undefined_ ? 1.0 : 0.0};
    for (const auto& counts : counts_) all.insert(all.end(), counts.begin(), counts.end());
    for (const auto& [score, positive] : scores_) all.insert(all.end(), {score, positive ? 1.0 : 0.0});
    return all;
  }
  void join(std::span<const double> sums) override {
    undefined_ = undefined_ || sums[0] != 0;
    sums = sums.subspan(1);
    for (auto& counts : counts_) {
      for (std::size_t bin = 0; bin < counts.size(); ++bin) counts[bin] += static_cast<std::int64_t>(sums[bin]);
      sums = sums.subspan(counts.size());
    }
    for (std::size_t i = 0; i + 1 < sums.size(); i += 2) scores_.emplace_back(sums[i], sums[i + 1] != 0);
  }

 private:
  // Of the positive class against all others together; monotone in its probability.
  double log_odds(const float* logits, std::int64_t classes) const {
    const auto own = static_cast<double>(logits[options_.positive]);
    double most = -INFINITY;
    for (std::int64_t c = 0; c < classes; ++c) {
      if (c != options_.positive) most = std::max(most, static_cast<double>(logits[c]));
    }
    double rest = 0;
    for (std::int64_t c = 0; c < classes; ++c) {
      if (c != options_.positive) rest += std::exp(static_cast<double>(logits[c]) - most);
    }
    return own - most - std::log(rest);
  }

  void take(double score, bool positive) {
    undefined_ = undefined_ || std::isnan(score);  // NaN cannot be ordered
    if (undefined_) return;
    if (options_.bins == 0) {
      scores_.emplace_back(score, positive);
      return;
    }
    const double probability = 1 / (1 + std::exp(-score));
    const auto bin =
        std::min(static_cast<std::int64_t>(probability * static_cast<double>(options_.bins)), options_.bins - 1);
    ++counts_[positive ? 1 : 0][static_cast<std::size_t>(bin)];
  }

  double binned() const {
    double below = 0, won = 0, positives = 0;
    for (std::size_t bin = 0; bin < counts_[0].size(); ++bin) {
      const auto negative = static_cast<double>(counts_[0][bin]), positive = static_cast<double>(counts_[1][bin]);
      won += positive * (below + negative / 2);
      below += negative;
      positives += positive;
    }
    return train::ratio(won, positives * below);
  }

  AucOptions options_;
  std::vector<std::pair<double, bool>> scores_;
  std::vector<std::int64_t> counts_[2];
  bool undefined_ = false;  // a score was NaN
};

}  // namespace

void register_metric_auc(MetricKinds& kinds) {
  kinds.add<AucOptions>("auc", "area under the ROC curve",
                        [](const AucOptions& options) { return std::make_unique<Auc>(options); });
}

}  // namespace starling
