#include <fmt/format.h>

#include <cmath>

#include "starling/base/error.h"
#include "starling/train/callbacks/ready_made.h"
#include "starling/train/callbacks/watched_metric.h"

namespace starling {
namespace {

class EarlyStop final : public Callback {
 public:
  explicit EarlyStop(const EarlyStopOptions& options) : options_(options) {
    check(options.patience >= 0 && options.min_delta >= 0,
          "[early_stop] expected patience and min_delta of at least 0, got {} and {}", options.patience,
          options.min_delta);
  }

  std::string name() const override { return "early_stop"; }
  bool looks_at_loss(std::int64_t) const override { return false; }

  void attach(Run& run) override {
    const auto& metrics = run.plan().metrics;
    check(!options_.metric.empty() || !metrics.empty(), "[early_stop] expected a metric to look at, got none");
    if (options_.metric.empty()) options_.metric = metrics.front().name;
    lowest_ = options_.lowest.value_or(!run.plan().higher_is_better(options_.metric));
    best_step_ = -1;
    waited_ = 0;
  }
  void begin(Run& run) override { decide(run); }  // a run resumed after its early stop stays stopped

  void evaluated(Run& run) override {
    const auto value = watched_metric(run, options_.metric, "early_stop");
    if (!value) return;
    if (better(*value)) {
      best_ = *value;
      best_step_ = run.state().step;
      waited_ = 0;
    } else {
      ++waited_;
    }
    decide(run);
  }

  void end(Run& run) override {
    if (best_step_ >= 0 || run.state().evaluated_step < 0 || run.interrupted()) return;
    run.note(waited_ == 0
                 ? fmt::format("warning: early_stop: no evaluation told '{}'", options_.metric)
                 : fmt::format("warning: early_stop: '{}' was infinite or NaN in every evaluation", options_.metric));
  }

  nlohmann::json state() const override {
    return {{"metric", options_.metric},
            {"best", best_step_ < 0 ? nlohmann::json() : nlohmann::json(best_)},
            {"best_step", best_step_},
            {"waited", waited_}};
  }
  // Ignores the best value of another metric.
  void restore(const nlohmann::json& state) override {
    if (state.value("metric", options_.metric) != options_.metric) return;
    const bool known = state.at("best").is_number();
    best_step_ = known ? state.at("best_step").get<std::int64_t>() : -1;
    best_ = known ? state.at("best").get<double>() : 0;
    waited_ = state.at("waited").get<std::int64_t>();
  }

 private:
  bool better(double value) const {
    if (!std::isfinite(value)) return false;  // no number to improve on, nor one that a checkpoint can hold
    if (best_step_ < 0) return true;
    return lowest_ ? value < best_ - options_.min_delta : value > best_ + options_.min_delta;
  }
  void decide(Run& run) const {
    if (waited_ <= options_.patience) return;
    run.stop(best_step_ < 0
                 ? fmt::format("early_stop: {} was infinite or NaN in all of {} evaluations", options_.metric, waited_)
                 : fmt::format("early_stop: {} has not got better since step {} ({:.4g})", options_.metric, best_step_,
                               best_));
  }

  EarlyStopOptions options_;
  bool lowest_ = false;
  double best_ = 0;
  std::int64_t best_step_ = -1;
  std::int64_t waited_ = 0;
};

}  // namespace

CallbackPtr early_stop(const EarlyStopOptions& options) { return std::make_shared<EarlyStop>(options); }

}  // namespace starling
