#pragma once

#include <memory>
#include <vector>

#include "starling/base/config/settings.h"
#include "starling/optim/schedule.h"

namespace starling::optim {

// Schedules for C++; jobs know the same ones by name: make_schedule(CosineOptions{.warmup = {.steps = 500}}). Times are
// counted in steps or epochs, t being those done; a length of 0 is the rest of the run after the warm-up.
enum class ScheduleUnit { step, epoch };

// Warm-up before any schedule: the rate rises linearly from start · rate to the schedule's first; then the schedule
// begins.
struct WarmupOptions {
  std::int64_t steps = 0;
  double start = 0.01;
  static Settings settings();
};
std::unique_ptr<Schedule> with_warmup(std::unique_ptr<Schedule> schedule, const WarmupOptions& options);

// `factor` for `length` steps or epochs, 1 after that; a length of 0 never ends.
struct ConstantOptions {
  double factor = 1;
  std::int64_t length = 0;
  ScheduleUnit unit = ScheduleUnit::epoch;
  WarmupOptions warmup{};
  static Settings settings();
};
// gamma^⌊t / every⌋.
struct StepOptions {
  std::int64_t every = 30;
  double gamma = 0.1;
  ScheduleUnit unit = ScheduleUnit::epoch;
  WarmupOptions warmup{};
  static Settings settings();
};
// gamma^(number of milestones that t has reached).
struct MultiStepOptions {
  std::vector<std::int64_t> milestones = {30, 60, 90};
  double gamma = 0.1;
  ScheduleUnit unit = ScheduleUnit::epoch;
  WarmupOptions warmup{};
  static Settings settings();
};
// gammaᵗ, with t rounded down.
struct ExponentialOptions {
  double gamma = 0.95;
  ScheduleUnit unit = ScheduleUnit::epoch;
  WarmupOptions warmup{};
  static Settings settings();
};
// Linear from `start` to `end`, constant after that.
struct LinearOptions {
  double start = 1;
  double end = 0;
  std::int64_t length = 0;
  ScheduleUnit unit = ScheduleUnit::step;
  WarmupOptions warmup{};
  static Settings settings();
};
// end + (1 - end) · (1 - t / length)^power.
struct PolynomialOptions {
  double power = 1;
  double end = 0;
  std::int64_t length = 0;
  ScheduleUnit unit = ScheduleUnit::step;
  WarmupOptions warmup{};
  static Settings settings();
};
// end + (1 - end) · (1 + cos(π · t / length)) / 2.
struct CosineOptions {
  double end = 0;
  std::int64_t length = 0;
  ScheduleUnit unit = ScheduleUnit::step;
  WarmupOptions warmup{};
  static Settings settings();
};
// Cosine with warm restarts (SGDR): each cycle is `times` as long as the last.
struct CosineRestartsOptions {
  std::int64_t first = 10;
  std::int64_t times = 1;
  double end = 0;
  ScheduleUnit unit = ScheduleUnit::epoch;
  WarmupOptions warmup{};
  static Settings settings();
};
// Rises to the optimizer's own rate over the first `rise` of the run, then falls to nearly nothing (Smith 2018); with
// three phases it returns to the first rate in between.
struct OneCycleOptions {
  enum class Shape { cosine, linear };
  double rise = 0.3;
  double start = 0.04;  // first rate, as a share of the optimizer's
  double end = 1e-4;    // last rate, as a share of the first
  Shape shape = Shape::cosine;
  bool three_phases = false;
  std::int64_t length = 0;
  ScheduleUnit unit = ScheduleUnit::step;
  static Settings settings();
};
// Multiplies the rate by `factor` whenever the evaluated metric has not improved by the threshold for `patience`
// evaluations.
struct PlateauOptions {
  enum class Mode { automatic, min, max };  // automatic: the metric decides
  enum class Threshold { relative, absolute };
  Mode mode = Mode::automatic;
  double factor = 0.1;
  std::int64_t patience = 10;
  double threshold = 1e-4;
  Threshold threshold_mode = Threshold::relative;
  std::int64_t cooldown = 0;  // evaluations ignored after a change
  double least = 0;           // smallest factor
  WarmupOptions warmup{};
  static Settings settings();
};

std::unique_ptr<Schedule> make_schedule(const ConstantOptions& options);
std::unique_ptr<Schedule> make_schedule(const StepOptions& options);
std::unique_ptr<Schedule> make_schedule(const MultiStepOptions& options);
std::unique_ptr<Schedule> make_schedule(const ExponentialOptions& options);
std::unique_ptr<Schedule> make_schedule(const LinearOptions& options);
std::unique_ptr<Schedule> make_schedule(const PolynomialOptions& options);
std::unique_ptr<Schedule> make_schedule(const CosineOptions& options);
std::unique_ptr<Schedule> make_schedule(const CosineRestartsOptions& options);
std::unique_ptr<Schedule> make_schedule(const OneCycleOptions& options);
std::unique_ptr<Schedule> make_schedule(const PlateauOptions& options);

}  // namespace starling::optim
