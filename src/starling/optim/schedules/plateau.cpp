#include <cmath>

#include "starling/base/error.h"
#include "starling/optim/schedule_parts.h"

namespace starling::optim {
namespace {

class Plateau final : public Schedule {
 public:
  explicit Plateau(const PlateauOptions& options) : o_(options) {}

  double factor(const ScheduleMoment&) const override { return factor_; }

  void prefer(bool higher) override { higher_ = higher; }

  void observe(double metric) override {
    const bool is_better = !best_known_ ? !std::isnan(metric) : better(metric);
    if (is_better) {
      best_ = metric;
      best_known_ = true;
      bad_ = 0;
    } else {
      ++bad_;
    }
    if (waiting_ > 0) {
      --waiting_;
      bad_ = 0;
    }
    if (bad_ <= o_.patience) return;
    factor_ = std::max(factor_ * o_.factor, o_.least);
    waiting_ = o_.cooldown;
    bad_ = 0;
  }

  nlohmann::json state() const override {
    nlohmann::json best;
    if (best_known_) best = best_;
    return {{"factor", factor_}, {"best", best}, {"bad", bad_}, {"waiting", waiting_}};
  }
  void restore(const nlohmann::json& state) override {
    factor_ = state.at("factor").get<double>();
    best_known_ = !state.at("best").is_null();
    best_ = best_known_ ? state.at("best").get<double>() : 0;
    bad_ = state.at("bad").get<std::int64_t>();
    waiting_ = state.at("waiting").get<std::int64_t>();
  }

 private:
  bool better(double metric) const {
    const bool relative = o_.threshold_mode == PlateauOptions::Threshold::relative;
    const bool higher = o_.mode == PlateauOptions::Mode::automatic ? higher_ : o_.mode == PlateauOptions::Mode::max;
    if (!higher) return metric < (relative ? best_ * (1 - o_.threshold) : best_ - o_.threshold);
    return metric > (relative ? best_ * (1 + o_.threshold) : best_ + o_.threshold);
  }

  PlateauOptions o_;
  bool higher_ = false;  // a larger metric is better
  double factor_ = 1;
  double best_ = 0;
  bool best_known_ = false;
  std::int64_t bad_ = 0;
  std::int64_t waiting_ = 0;
};

}  // namespace

Settings PlateauOptions::settings() {
  using O = PlateauOptions;
  return {choice("mode", &O::mode, {"auto", "min", "max"},
                 "which value is better: as the metric says, a smaller or a larger one"),
          setting("factor", &O::factor, "times the rate on a plateau", {.min = 0, .max = 1}),
          setting("patience", &O::patience, "evaluations without progress before the rate is lowered", {.min = 0}),
          setting("threshold", &O::threshold, "how much better counts", {.min = 0}),
          choice("threshold_mode", &O::threshold_mode, {"relative", "absolute"}, "what the threshold is measured in"),
          setting("cooldown", &O::cooldown, "evaluations after a change that do not count", {.min = 0}),
          setting("least", &O::least, "the smallest share of the rate", {.min = 0}),
          warmup_setting<O>()};
}

std::unique_ptr<Schedule> make_schedule(const PlateauOptions& o) {
  check(o.factor >= 0 && o.factor < 1, "[plateau] expected a factor in [0, 1), got {}", o.factor);
  return with_warmup(std::make_unique<Plateau>(o), o.warmup);
}

}  // namespace starling::optim

namespace starling {
void register_schedule_plateau(optim::ScheduleKinds& kinds) {
  optim::add_schedule<optim::PlateauOptions>(kinds, "plateau", "down when a metric stops getting better");
}
}  // namespace starling
