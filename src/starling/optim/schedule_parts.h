#pragma once

#include <string>
#include <utility>

#include "starling/optim/schedule_kinds.h"
#include "starling/optim/schedules.h"

namespace starling::optim {

// Helpers shared by the files in schedules/.

// Steps or epochs done: fractional, and rounded down.
double elapsed(const ScheduleMoment& moment, ScheduleUnit unit);
double whole(const ScheduleMoment& moment, ScheduleUnit unit);
// Progress through `length` (0: the run), in [0, 1].
double progress(const ScheduleMoment& moment, std::int64_t length, ScheduleUnit unit);

// Schedule from a function of the moment.
template <class F>
std::unique_ptr<Schedule> schedule_of(F f, const WarmupOptions& warmup = {}) {
  class Made final : public Schedule {
   public:
    explicit Made(F f) : f_(std::move(f)) {}
    double factor(const ScheduleMoment& moment) const override { return f_(moment); }

   private:
    F f_;
  };
  return with_warmup(std::make_unique<Made>(std::move(f)), warmup);
}

template <class O>
Setting unit_setting() {
  return choice("unit", &O::unit, {"step", "epoch"}, "what times are counted in");
}
template <class O>
Setting warmup_setting() {
  return setting("warmup", &O::warmup, "a rise before the schedule begins");
}

template <class O>
void add_schedule(ScheduleKinds& kinds, const std::string& name, std::string doc) {
  kinds.add<O>(name, std::move(doc), [](const O& options) { return make_schedule(options); });
}

}  // namespace starling::optim
