#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>

namespace starling::optim {

// Position in a run for which a learning rate is asked.
struct ScheduleMoment {
  std::int64_t step = 0;   // done so far
  std::int64_t steps = 0;  // in the whole run
  std::int64_t steps_per_epoch = 0;
};

// Learning rate of the next step as a factor on the optimizer's own:
//   opt.set_lr(lr * schedule->factor({.step = step, .steps = steps}))
class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual double factor(const ScheduleMoment& moment) const = 0;

  // Called before the run: true if a larger value of the observed metric is better. Default: smaller is better.
  virtual void prefer([[maybe_unused]] bool higher) {}
  // Called after each evaluation; used by plateau schedules.
  virtual void observe([[maybe_unused]] double metric) {}
  // Checkpoint state beyond the step, for schedules that observe metrics.
  virtual nlohmann::json state() const { return nlohmann::json::object(); }
  virtual void restore([[maybe_unused]] const nlohmann::json& state) {}
};

}  // namespace starling::optim
