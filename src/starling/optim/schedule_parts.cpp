#include "starling/optim/schedule_parts.h"

#include <algorithm>
#include <cmath>

#include "starling/base/error.h"

namespace starling::optim {
namespace {

class Warmup final : public Schedule {
 public:
  Warmup(std::unique_ptr<Schedule> then, const WarmupOptions& options) : then_(std::move(then)), options_(options) {}

  double factor(const ScheduleMoment& moment) const override {
    ScheduleMoment behind = moment;
    behind.step = std::max<std::int64_t>(moment.step - options_.steps, 0);
    behind.steps = std::max<std::int64_t>(moment.steps - options_.steps, 0);
    const double done = std::min(static_cast<double>(moment.step) / static_cast<double>(options_.steps), 1.0);
    return then_->factor(behind) * (options_.start + (1 - options_.start) * done);
  }
  void prefer(bool higher) override { then_->prefer(higher); }
  void observe(double metric) override { then_->observe(metric); }
  nlohmann::json state() const override { return then_->state(); }
  void restore(const nlohmann::json& state) override { then_->restore(state); }

 private:
  std::unique_ptr<Schedule> then_;
  WarmupOptions options_;
};

}  // namespace

Settings WarmupOptions::settings() {
  using O = WarmupOptions;
  return {setting("steps", &O::steps, "how long it takes", {.min = 0}),
          setting("start", &O::start, "of the rate, at the first step", {.min = 0})};
}

std::unique_ptr<Schedule> with_warmup(std::unique_ptr<Schedule> schedule, const WarmupOptions& options) {
  check(options.steps >= 0 && options.start >= 0, "[warmup] expected steps and start of at least 0, got {} and {}",
        options.steps, options.start);
  if (options.steps == 0) return schedule;
  return std::make_unique<Warmup>(std::move(schedule), options);
}

double elapsed(const ScheduleMoment& moment, ScheduleUnit unit) {
  if (unit == ScheduleUnit::step) return static_cast<double>(moment.step);
  check(moment.steps_per_epoch > 0, "[schedule] expected to know the steps of an epoch, got {}",
        moment.steps_per_epoch);
  return static_cast<double>(moment.step) / static_cast<double>(moment.steps_per_epoch);
}

double whole(const ScheduleMoment& moment, ScheduleUnit unit) { return std::floor(elapsed(moment, unit)); }

double progress(const ScheduleMoment& moment, std::int64_t length, ScheduleUnit unit) {
  if (length == 0) {
    check(moment.steps > 0 || moment.step == 0, "[schedule] expected to know the steps of the run, got {}",
          moment.steps);
    return moment.steps > 0 ? std::min(static_cast<double>(moment.step) / static_cast<double>(moment.steps), 1.0) : 0;
  }
  return std::min(elapsed(moment, unit) / static_cast<double>(length), 1.0);
}

}  // namespace starling::optim
