#include "starling/train/metric_rows.h"

namespace starling {
namespace {

// Share of samples whose largest logit is the label's; the first of equal ones counts.
class Accuracy final : public Metric {
 public:
  void add(const Judged& batch) override {
    const std::int64_t classes = batch.prediction.defined() ? batch.prediction.size(-1) : 0;
    train::for_each_label(batch, "accuracy", [&](const float* logits, std::int64_t label) {
      share_.hits += train::tells(logits, classes, label) ? 1 : 0;
      ++share_.count;
    });
  }
  double value() const override { return share_.value(); }
  void reset() override { share_ = {}; }
  std::optional<std::vector<double>> sums() const override { return share_.sums(); }
  void join(std::span<const double> sums) override { share_.join(sums); }

 private:
  train::Share share_;
};

struct TopKOptions {
  std::int64_t k = 5;
  static Settings settings() {
    return {setting("k", &TopKOptions::k, "how many of the largest logits may hold the label", {.min = 1})};
  }
};

// Share of samples where fewer than k logits are larger than the label's, or equal and before it. NaN is larger than
// any number, and never a hit itself.
class TopK final : public Metric {
 public:
  explicit TopK(const TopKOptions& options) : k_(options.k) {}
  void add(const Judged& batch) override {
    const std::int64_t classes = batch.prediction.defined() ? batch.prediction.size(-1) : 0;
    train::for_each_label(batch, "top_k", [&](const float* logits, std::int64_t label) {
      ++share_.count;
      if (label >= classes || std::isnan(logits[label])) return;
      std::int64_t before = 0;
      for (std::int64_t c = 0; c < classes; ++c)
        before += !(logits[c] <= logits[label]) || (logits[c] == logits[label] && c < label) ? 1 : 0;
      share_.hits += before < k_ ? 1 : 0;
    });
  }
  double value() const override { return share_.value(); }
  void reset() override { share_ = {}; }
  std::optional<std::vector<double>> sums() const override { return share_.sums(); }
  void join(std::span<const double> sums) override { share_.join(sums); }

 private:
  std::int64_t k_;
  train::Share share_;
};

// Share of sequences that are right at every position that counts.
class SequenceAccuracy final : public Metric {
 public:
  void add(const Judged& batch) override {
    train::expect_labels(batch, "word_accuracy");
    const std::int64_t sequences = batch.target.size(0);
    if (sequences == 0) return;
    const std::int64_t places = batch.target.numel() / sequences, classes = batch.prediction.size(-1);
    const auto* logits = batch.prediction.data<float>();
    const auto* labels = batch.target.data<std::int64_t>();
    for (std::int64_t s = 0; s < sequences; ++s) {
      bool right = true, counts = false;
      for (std::int64_t p = s * places; p < (s + 1) * places; ++p) {
        if (labels[p] < 0) continue;
        counts = true;
        right = right && train::tells(logits + p * classes, classes, labels[p]);
      }
      share_.hits += right && counts ? 1 : 0;
      share_.count += counts ? 1 : 0;
    }
  }
  double value() const override { return share_.value(); }
  void reset() override { share_ = {}; }
  std::optional<std::vector<double>> sums() const override { return share_.sums(); }
  void join(std::span<const double> sums) override { share_.join(sums); }

 private:
  train::Share share_;
};

// Multi-label accuracy: share of labels predicted right, with a threshold of 0 on the logit.
class LabelAccuracy final : public Metric {
 public:
  void add(const Judged& batch) override {
    train::expect_numbers(batch, "label_accuracy");
    const auto targets = train::numbers_of(batch.target);
    const auto* logits = batch.prediction.data<float>();
    for (std::size_t i = 0; i < targets.size(); ++i) {
      if (targets[i] < 0) continue;
      share_.hits += (logits[i] > 0) == (targets[i] > 0.5) ? 1 : 0;
      ++share_.count;
    }
  }
  double value() const override { return share_.value(); }
  void reset() override { share_ = {}; }
  std::optional<std::vector<double>> sums() const override { return share_.sums(); }
  void join(std::span<const double> sums) override { share_.join(sums); }

 private:
  train::Share share_;
};

}  // namespace

void register_metric_accuracy(MetricKinds& kinds) {
  kinds.add<NoSettings>("accuracy", "share of labels whose logit is the largest",
                        [](const NoSettings&) { return std::make_unique<Accuracy>(); });
  kinds.add<TopKOptions>("top_k", "share of labels whose logit is among the k largest",
                         [](const TopKOptions& options) { return std::make_unique<TopK>(options); });
  kinds.add<NoSettings>("word_accuracy", "share of sequences that are right in every place",
                        [](const NoSettings&) { return std::make_unique<SequenceAccuracy>(); });
  kinds.add<NoSettings>("label_accuracy", "share of labels told right where any number of them may hold",
                        [](const NoSettings&) { return std::make_unique<LabelAccuracy>(); });
}

}  // namespace starling
