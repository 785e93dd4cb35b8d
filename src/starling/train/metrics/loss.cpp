#include <cmath>

#include "starling/train/metric_rows.h"

namespace starling {
namespace {

class MeanLoss : public Metric {
 public:
  void add(const Judged& batch) override {
    sum_ += batch.loss * batch.weight;
    weight_ += batch.weight;
  }
  double value() const override { return train::ratio(sum_, weight_); }
  void reset() override { sum_ = weight_ = 0; }
  bool higher_is_better() const override { return false; }
  std::optional<std::vector<double>> sums() const override { return std::vector{sum_, weight_}; }
  void join(std::span<const double> sums) override {
    sum_ += sums[0];
    weight_ += sums[1];
  }

 private:
  double sum_ = 0;
  double weight_ = 0;
};

// Perplexity: exp of the mean loss, if that is a cross-entropy.
class Perplexity final : public MeanLoss {
 public:
  double value() const override { return std::exp(MeanLoss::value()); }
};

}  // namespace

void register_metric_loss(MetricKinds& kinds) {
  kinds.add<NoSettings>("loss", "mean of the objective's loss",
                        [](const NoSettings&) { return std::make_unique<MeanLoss>(); });
  kinds.add<NoSettings>("perplexity", "e to the mean cross-entropy",
                        [](const NoSettings&) { return std::make_unique<Perplexity>(); });
}

}  // namespace starling
