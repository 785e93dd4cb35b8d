#include "starling/train/confusion.h"

#include "starling/train/metric_rows.h"

namespace starling {
namespace {

enum class Average { macro, micro };
enum class Part { precision, recall, f1 };

struct AverageSettings {
  Average average = Average::macro;
  static Settings settings() {
    return {choice("average", &AverageSettings::average, {"macro", "micro"},
                   "macro: the mean over classes; micro: all samples together")};
  }
};

// Confusion matrix; the metric's value is the accuracy.
class ConfusionMatrix final : public Metric {
 public:
  void add(const Judged& batch) override { confusion_.add(batch, "confusion"); }
  double value() const override {
    std::int64_t right = 0;
    for (std::int64_t c = 0; c < confusion_.classes(); ++c) right += confusion_.at(c, c);
    return train::ratio(static_cast<double>(right), static_cast<double>(confusion_.total()));
  }
  void reset() override { confusion_.reset(); }
  std::optional<std::vector<double>> sums() const override { return confusion_.sums(); }
  void join(std::span<const double> sums) override { confusion_.join(sums); }
  std::string table(const std::vector<std::string>& class_names) const override {
    return confusion_.table(class_names);
  }

 private:
  train::Confusion confusion_;
};

// Classes that neither occur nor are predicted are ignored; 0 / 0 counts as 0.
class PrecisionRecall final : public Metric {
 public:
  PrecisionRecall(Part part, Average average) : part_(part), average_(average) {}
  void add(const Judged& batch) override { confusion_.add(batch, "precision, recall or f1"); }
  void reset() override { confusion_.reset(); }
  std::optional<std::vector<double>> sums() const override { return confusion_.sums(); }
  void join(std::span<const double> sums) override { confusion_.join(sums); }

  double value() const override {
    double sum = 0, hits = 0, labels = 0, predicted = 0;
    int classes = 0;
    for (std::int64_t c = 0; c < confusion_.classes(); ++c) {
      const auto hit = static_cast<double>(confusion_.at(c, c));
      const auto label = static_cast<double>(confusion_.of_label(c));
      const auto taken = static_cast<double>(confusion_.of_prediction(c));
      if (label + taken == 0) continue;
      ++classes;
      sum += of(hit, label, taken);
      hits += hit;
      labels += label;
      predicted += taken;
    }
    if (classes == 0) return train::ratio(0, 0);
    return average_ == Average::macro ? sum / classes : of(hits, labels, predicted);
  }

 private:
  double of(double hit, double label, double taken) const {
    if (part_ == Part::precision) return taken > 0 ? hit / taken : 0;
    if (part_ == Part::recall) return label > 0 ? hit / label : 0;
    return 2 * hit / (label + taken);
  }

  Part part_;
  Average average_;
  train::Confusion confusion_;
};

}  // namespace

void register_metric_confusion(MetricKinds& kinds) {
  kinds.add<NoSettings>("confusion", "confusion matrix: labels down, predictions across; its number is the accuracy",
                        [](const NoSettings&) { return std::make_unique<ConfusionMatrix>(); });
  const auto add = [&](const char* name, const char* doc, Part part) {
    kinds.add<AverageSettings>(name, doc, [part](const AverageSettings& settings) {
      return std::make_unique<PrecisionRecall>(part, settings.average);
    });
  };
  add("precision", "share of the samples taken for a class that are of it", Part::precision);
  add("recall", "share of the samples of a class that are taken for it", Part::recall);
  add("f1", "harmonic mean of precision and recall", Part::f1);
}

}  // namespace starling
