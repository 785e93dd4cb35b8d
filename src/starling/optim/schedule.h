#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>

namespace starling::optim {

// Where a run stands when the next learning rate is asked for.
struct ScheduleMoment {
  std::int64_t step = 0;   // done so far
  std::int64_t steps = 0;  // in the whole run
  std::int64_t steps_per_epoch = 0;
};

// The learning rate of the next step as a share of the optimizer's own:
//   opt.set_lr(lr * schedule->factor({.step = step, .steps = steps}))
class Schedule {
 public:
  virtual ~Schedule() = default;
  virtual double factor(const ScheduleMoment& moment) const = 0;

  // Before the run: whether a larger value of the metric that is observed is the better one. Not told: a smaller one.
  virtual void prefer([[maybe_unused]] bool higher) {}
  // After each evaluation; schedules that wait for a plateau listen.
  virtual void observe([[maybe_unused]] double metric) {}
  // What a checkpoint needs beside the step: of those that listen.
  virtual nlohmann::json state() const { return nlohmann::json::object(); }
  virtual void restore([[maybe_unused]] const nlohmann::json& state) {}
};

}  // namespace starling::optim
