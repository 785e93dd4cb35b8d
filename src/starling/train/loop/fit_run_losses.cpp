// Parts of FitRun for the losses of steps, which come late from a device.

#include <fmt/format.h>

#include <cmath>

#include "starling/train/loop/fit_run.h"

namespace starling::train {
namespace {

constexpr double kLossMemory = 0.98;  // decay of the loss shown in the progress line

}  // namespace

void FitRun::learn(const StepLoss& loss) {
  for (const auto& callback : parts_.callbacks) callback->learned(*this, loss);
}

// Takes the losses that have come from the device; all: also waits for those under way.
void FitRun::hear_losses(bool all) {
  while (!late_steps_.empty()) {
    const auto come = parts_.programs.late_loss(all || parts_.programs.late_losses_full());
    if (!come) return;
    const LateStep of = late_steps_.front();
    late_steps_.pop_front();
    check_loss(come->loss, of.step, of.epoch, of.step == state_.step && !parts_.link);
    add_loss(come->loss, come->weight);
    report_.loss = come->loss;
    learn({of.step, of.samples, come->loss});
  }
}

void FitRun::add_loss(double loss, double weight) {
  state_.epoch_loss += loss * weight;
  state_.epoch_weight += weight;
  const double before = kLossMemory * shown_weight_;
  shown_weight_ = before + (1 - kLossMemory);
  const double earlier = before > 0 ? before * shown_loss_ : 0;  // before the first step it may be NaN
  shown_loss_ = (earlier + (1 - kLossMemory) * loss) / shown_weight_;
  last_loss_ = loss;
  loss_shown_ = true;
}

void FitRun::check_loss(double loss, std::int64_t step, std::int64_t epoch, bool of_this_batch) const {
  if (std::isfinite(loss)) return;
  const std::string data = of_this_batch ? bad_input() : "";
  throw NotFiniteError(
      fmt::format("[train] expected a finite loss, got {} at step {} (epoch {}){}", loss, step, epoch + 1, data), step,
      step - 1, !data.empty());
}

}  // namespace starling::train
