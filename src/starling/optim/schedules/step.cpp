#include <cmath>

#include "starling/base/error.h"
#include "starling/optim/schedule_parts.h"

namespace starling::optim {

Settings StepOptions::settings() {
  using O = StepOptions;
  return {setting("every", &O::every, "how long each rate holds", {.min = 1}),
          setting("gamma", &O::gamma, "times the rate at each step down", {.min = 0}), unit_setting<O>(),
          warmup_setting<O>()};
}
Settings MultiStepOptions::settings() {
  using O = MultiStepOptions;
  return {setting("milestones", &O::milestones, "when the rate steps down", {.min = 0}),
          setting("gamma", &O::gamma, "times the rate at each", {.min = 0}), unit_setting<O>(), warmup_setting<O>()};
}

std::unique_ptr<Schedule> make_schedule(const StepOptions& o) {
  check(o.every > 0, "[step] expected at least 1 between steps, got {}", o.every);
  return schedule_of(
      [o](const ScheduleMoment& now) {
        return std::pow(o.gamma, std::floor(whole(now, o.unit) / static_cast<double>(o.every)));
      },
      o.warmup);
}

std::unique_ptr<Schedule> make_schedule(const MultiStepOptions& o) {
  return schedule_of(
      [o](const ScheduleMoment& now) {
        double reached = 0;
        for (const auto milestone : o.milestones) reached += whole(now, o.unit) >= static_cast<double>(milestone);
        return std::pow(o.gamma, reached);
      },
      o.warmup);
}

}  // namespace starling::optim

namespace starling {
void register_schedule_step(optim::ScheduleKinds& kinds) {
  optim::add_schedule<optim::StepOptions>(kinds, "step", "times gamma every so often");
  optim::add_schedule<optim::MultiStepOptions>(kinds, "multi_step", "times gamma at given times");
}
}  // namespace starling
