#include <array>
#include <cmath>
#include <numbers>

#include "starling/base/error.h"
#include "starling/optim/schedule_parts.h"

namespace starling::optim {
namespace {

struct Phase {
  double last;  // step at which the phase ends
  double from, to;
};

double between(OneCycleOptions::Shape shape, double from, double to, double share) {
  if (shape == OneCycleOptions::Shape::linear) return from + (to - from) * share;
  return to + (from - to) / 2 * (1 + std::cos(std::numbers::pi * share));
}

std::array<Phase, 3> phases(const OneCycleOptions& o, double steps) {
  const double top = o.rise * steps - 1, least = o.start * o.end;
  if (o.three_phases) return {{{top, o.start, 1}, {2 * o.rise * steps - 2, 1, o.start}, {steps - 1, o.start, least}}};
  return {{{top, o.start, 1}, {steps - 1, 1, least}, {steps - 1, least, least}}};
}

}  // namespace

Settings OneCycleOptions::settings() {
  using O = OneCycleOptions;
  return {setting("rise", &O::rise, "the share of the run that goes up", {.min = 0, .max = 1}),
          setting("start", &O::start, "of the optimizer's rate, at first", {.min = 0}),
          setting("end", &O::end, "of the first rate, at last", {.min = 0}),
          choice("shape", &O::shape, {"cosine", "linear"}, "of the way up and down"),
          setting("three_phases", &O::three_phases, "down to the first rate before the last phase"),
          setting("length", &O::length, "how long it takes; 0: the whole run", {.min = 0}),
          unit_setting<O>()};
}

std::unique_ptr<Schedule> make_schedule(const OneCycleOptions& o) {
  check(o.rise >= 0 && o.rise <= (o.three_phases ? 0.5 : 1.0), "[one_cycle] expected a share of the run, got {}",
        o.rise);
  return schedule_of([o](const ScheduleMoment& now) {
    const double scale = o.unit == ScheduleUnit::epoch ? static_cast<double>(now.steps_per_epoch) : 1;
    const double steps = o.length > 0 ? static_cast<double>(o.length) * scale : static_cast<double>(now.steps);
    check(steps > 0, "[one_cycle] expected to know the steps of the run, got {}", steps);
    const double t = std::min(static_cast<double>(now.step), steps - 1);
    double begin = 0;
    for (const Phase& phase : phases(o, steps)) {
      if (t <= phase.last)
        return between(o.shape, phase.from, phase.to, phase.last > begin ? (t - begin) / (phase.last - begin) : 1);
      begin = phase.last;
    }
    return o.start * o.end;
  });
}

}  // namespace starling::optim

namespace starling {
void register_schedule_one_cycle(optim::ScheduleKinds& kinds) {
  optim::add_schedule<optim::OneCycleOptions>(kinds, "one_cycle", "up to the rate and down to next to nothing");
}
}  // namespace starling
