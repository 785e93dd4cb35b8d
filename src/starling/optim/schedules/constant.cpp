#include <cmath>

#include "starling/base/error.h"
#include "starling/optim/schedule_parts.h"

namespace starling::optim {

Settings ConstantOptions::settings() {
  using O = ConstantOptions;
  return {setting("factor", &O::factor, "of the optimizer's rate", {.min = 0}),
          setting("length", &O::length, "how long it holds; 0: always", {.min = 0}), unit_setting<O>(),
          warmup_setting<O>()};
}

std::unique_ptr<Schedule> make_schedule(const ConstantOptions& o) {
  return schedule_of(
      [o](const ScheduleMoment& now) {
        const bool holds = o.length == 0 || whole(now, o.unit) < static_cast<double>(o.length);
        return holds ? o.factor : 1;
      },
      o.warmup);
}

}  // namespace starling::optim

namespace starling {
void register_schedule_constant(optim::ScheduleKinds& kinds) {
  optim::add_schedule<optim::ConstantOptions>(kinds, "constant", "the same rate, maybe another at the beginning");
}
}  // namespace starling
