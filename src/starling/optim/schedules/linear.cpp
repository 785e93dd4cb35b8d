#include <cmath>

#include "starling/base/error.h"
#include "starling/optim/schedule_parts.h"

namespace starling::optim {

Settings LinearOptions::settings() {
  using O = LinearOptions;
  return {setting("start", &O::start, "of the optimizer's rate, at first", {.min = 0}),
          setting("end", &O::end, "of the optimizer's rate, at last", {.min = 0}),
          setting("length", &O::length, "how long it takes; 0: the whole run", {.min = 0}), unit_setting<O>(),
          warmup_setting<O>()};
}

std::unique_ptr<Schedule> make_schedule(const LinearOptions& o) {
  return schedule_of(
      [o](const ScheduleMoment& now) { return o.start + (o.end - o.start) * progress(now, o.length, o.unit); },
      o.warmup);
}

}  // namespace starling::optim

namespace starling {
void register_schedule_linear(optim::ScheduleKinds& kinds) {
  optim::add_schedule<optim::LinearOptions>(kinds, "linear", "evenly from one rate to another");
}
}  // namespace starling
