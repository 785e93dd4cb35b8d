#include <cmath>

#include "starling/base/error.h"
#include "starling/optim/schedule_parts.h"

namespace starling::optim {

Settings ExponentialOptions::settings() {
  using O = ExponentialOptions;
  return {setting("gamma", &O::gamma, "times the rate after each step or epoch", {.min = 0}), unit_setting<O>(),
          warmup_setting<O>()};
}

std::unique_ptr<Schedule> make_schedule(const ExponentialOptions& o) {
  return schedule_of([o](const ScheduleMoment& now) { return std::pow(o.gamma, whole(now, o.unit)); }, o.warmup);
}

}  // namespace starling::optim

namespace starling {
void register_schedule_exponential(optim::ScheduleKinds& kinds) {
  optim::add_schedule<optim::ExponentialOptions>(kinds, "exponential", "times gamma after each step or epoch");
}
}  // namespace starling
