#include <cmath>
#include <limits>

#include "starling/train/metric_rows.h"

namespace starling {
namespace {

// Mean of a function of the error.
template <double (*Cost)(double)>
class MeanError final : public Metric {
 public:
  void add(const Judged& batch) override {
    train::expect_numbers(batch, "error");
    const auto targets = train::numbers_of(batch.target);
    const auto* predictions = batch.prediction.data<float>();
    double sum = 0;  // summed per batch first, as with several ranks
    for (std::size_t i = 0; i < targets.size(); ++i) sum += Cost(static_cast<double>(predictions[i]) - targets[i]);
    sum_ += sum;
    count_ += static_cast<double>(targets.size());
  }
  double value() const override { return train::ratio(sum_, count_); }
  void reset() override { sum_ = count_ = 0; }
  bool higher_is_better() const override { return false; }
  std::optional<std::vector<double>> sums() const override { return std::vector{sum_, count_}; }
  void join(std::span<const double> sums) override {
    sum_ += sums[0];
    count_ += sums[1];
  }

 private:
  double sum_ = 0;
  double count_ = 0;
};

double squared(double error) { return error * error; }
double absolute(double error) { return std::abs(error); }

// 1 - Σ error² / Σ (target - mean)². Deviations are summed from the first target seen, so that targets far from 0 lose
// no digits.
class R2 final : public Metric {
 public:
  void add(const Judged& batch) override {
    train::expect_numbers(batch, "r2");
    const auto targets = train::numbers_of(batch.target);
    const auto* predictions = batch.prediction.data<float>();
    for (std::size_t i = 0; i < targets.size(); ++i) {
      if (count_ == 0) origin_ = targets[i];
      const double from_origin = targets[i] - origin_, error = static_cast<double>(predictions[i]) - targets[i];
      ++count_;
      sum_ += from_origin;
      squares_ += from_origin * from_origin;
      errors_ += error * error;
    }
  }
  double value() const override {
    const double spread = count_ > 0 ? squares_ - sum_ * sum_ / count_ : 0;
    return spread > 0 ? 1 - errors_ / spread : std::numeric_limits<double>::quiet_NaN();
  }
  void reset() override { count_ = sum_ = squares_ = errors_ = 0; }
  std::optional<std::vector<double>> sums() const override {
    return std::vector{origin_, count_, sum_, squares_, errors_};
  }
  void join(std::span<const double> sums) override {
    if (sums[1] == 0) return;
    if (count_ == 0) origin_ = sums[0];
    const double shift = sums[0] - origin_;  // the other sums are deviations from another origin
    squares_ += sums[3] + 2 * shift * sums[2] + sums[1] * shift * shift;
    sum_ += sums[2] + sums[1] * shift;
    count_ += sums[1];
    errors_ += sums[4];
  }

 private:
  double origin_ = 0;
  double count_ = 0;
  double sum_ = 0;
  double squares_ = 0;
  double errors_ = 0;
};

}  // namespace

void register_metric_regression(MetricKinds& kinds) {
  kinds.add<NoSettings>("mse", "mean squared error",
                        [](const NoSettings&) { return std::make_unique<MeanError<squared>>(); });
  kinds.add<NoSettings>("mae", "mean absolute error",
                        [](const NoSettings&) { return std::make_unique<MeanError<absolute>>(); });
  kinds.add<NoSettings>("r2", "share of the targets' variance that the predictions explain",
                        [](const NoSettings&) { return std::make_unique<R2>(); });
}

}  // namespace starling
