#include <cmath>
#include <numbers>

#include "starling/base/error.h"
#include "starling/optim/schedule_parts.h"

namespace starling::optim {
namespace {

double falling(double end, double share) { return end + (1 - end) * (1 + std::cos(std::numbers::pi * share)) / 2; }

// Fraction of the current cycle that is over at time t.
double in_round(double t, double length, double times) {
  if (times == 1) return std::fmod(t, length) / length;
  while (t >= length) {
    t -= length;
    length *= times;
  }
  return t / length;
}

}  // namespace

Settings CosineOptions::settings() {
  using O = CosineOptions;
  return {setting("end", &O::end, "of the optimizer's rate, at last", {.min = 0}),
          setting("length", &O::length, "how long it takes; 0: the whole run", {.min = 0}), unit_setting<O>(),
          warmup_setting<O>()};
}
Settings CosineRestartsOptions::settings() {
  using O = CosineRestartsOptions;
  return {setting("first", &O::first, "how long the first round takes", {.min = 1}),
          setting("times", &O::times, "how much longer each further one takes", {.min = 1}),
          setting("end", &O::end, "of the optimizer's rate, at the end of each", {.min = 0}), unit_setting<O>(),
          warmup_setting<O>()};
}

std::unique_ptr<Schedule> make_schedule(const CosineOptions& o) {
  return schedule_of([o](const ScheduleMoment& now) { return falling(o.end, progress(now, o.length, o.unit)); },
                     o.warmup);
}

std::unique_ptr<Schedule> make_schedule(const CosineRestartsOptions& o) {
  check(o.first > 0 && o.times > 0, "[cosine_restarts] expected rounds of at least 1 that do not shrink, got {} and {}",
        o.first, o.times);
  return schedule_of(
      [o](const ScheduleMoment& now) {
        const double t = elapsed(now, o.unit);
        return falling(o.end, in_round(t, static_cast<double>(o.first), static_cast<double>(o.times)));
      },
      o.warmup);
}

}  // namespace starling::optim

namespace starling {
void register_schedule_cosine(optim::ScheduleKinds& kinds) {
  optim::add_schedule<optim::CosineOptions>(kinds, "cosine", "down along half a cosine");
  optim::add_schedule<optim::CosineRestartsOptions>(kinds, "cosine_restarts",
                                                    "down along half a cosine, again and again");
}
}  // namespace starling
