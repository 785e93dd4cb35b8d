#include <cmath>

#include "starling/base/error.h"
#include "starling/optim/schedule_parts.h"

namespace starling::optim {

Settings PolynomialOptions::settings() {
  using O = PolynomialOptions;
  return {setting("power", &O::power, "of the share of time that is left", {.min = 0}),
          setting("end", &O::end, "of the optimizer's rate, at last", {.min = 0}),
          setting("length", &O::length, "how long it takes; 0: the whole run", {.min = 0}), unit_setting<O>(),
          warmup_setting<O>()};
}

std::unique_ptr<Schedule> make_schedule(const PolynomialOptions& o) {
  return schedule_of(
      [o](const ScheduleMoment& now) {
        return o.end + (1 - o.end) * std::pow(1 - progress(now, o.length, o.unit), o.power);
      },
      o.warmup);
}

}  // namespace starling::optim

namespace starling {
void register_schedule_polynomial(optim::ScheduleKinds& kinds) {
  optim::add_schedule<optim::PolynomialOptions>(kinds, "polynomial", "down by a power of the time that is left");
}
}  // namespace starling
