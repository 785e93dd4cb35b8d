// Parts of FitRun for a leader whose workers train by themselves: it adds up their portions, and takes the model from
// the servers to evaluate and to save it.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "starling/base/error.h"
#include "starling/train/loop/fit_run.h"
#include "starling/train/ranks/report.h"

namespace starling::train {

void FitRun::begin_workers() {
  if (!parts_.pool) return;
  const TrainerOptions& options = parts_.options;
  check(plan_.samples_per_epoch > 0,
        "[train] expected data that can be asked by number with {}, whose workers get portions of it, got shards "
        "without an index (write data.indexed: true)",
        parts_.pool->strategy());
  check(options.accumulate == 1, "[train] expected train.accumulate: 1 with {}, got {}", parts_.pool->strategy(),
        options.accumulate);
  stats_.assign(static_cast<std::size_t>(parts_.pool->workers()), {});
  running_epoch_ = state_.position.epoch;
  if (finished()) return;
  const auto rate = [this, first = state_.step](std::int64_t step) {
    const auto& schedule = parts_.options.schedule;
    if (!schedule) return state_.base_lr;
    return state_.base_lr *
           schedule->factor({.step = first + step, .steps = plan_.steps, .steps_per_epoch = plan_.steps_per_epoch});
  };
  parts_.pool->begin({.grid = {.samples = plan_.samples_per_epoch, .batch = options.batch, .start = state_.position},
                      .epochs = options.epochs,
                      .steps = options.steps > 0 ? options.steps - state_.step : 0,
                      .rate = rate,
                      .state = trained_state()});
  let_workers_run();
  stepped_ = std::chrono::steady_clock::now();
}

// Workers may go on into the next epoch while this one is evaluated, and no further.
void FitRun::let_workers_run() { parts_.pool->allow(running_epoch_ + 2); }

// Value of a worker's portion that is not finite, for messages: "'fc1.weight' on worker 1".
std::string FitRun::not_finite_value(const PortionStep& sum) const {
  const bool loss = sum.not_finite == StepNote::kLoss;
  std::string what = loss ? "a loss" : "a gradient";
  const auto parameters = parts_.net.named_parameters();
  if (!loss && sum.parameter > 0 && sum.parameter <= parameters.size())
    what = fmt::format("the gradient of '{}'", parameters[sum.parameter - 1].first);
  return fmt::format("{} on {} {}", what, parts_.pool->unit(), sum.bad_worker);
}

// A step of which some portion had no update because of values that are not finite, as its worker found.
void FitRun::judge_workers_step(const PortionStep& sum) {
  if (sum.bad_worker < 0) {
    skipped_in_a_row_ = 0;
    return;
  }
  const std::string what = not_finite_value(sum);
  const bool of_data = sum.not_finite == StepNote::kLoss && sum.parameter > 0;
  const std::string data =
      of_data ? fmt::format(": the portion itself holds an infinity or NaN, in its field {}", sum.parameter - 1) : "";
  if (parts_.options.non_finite != NonFinite::skip) {
    throw NotFiniteError(fmt::format("[train] expected {}, got {} that is not at step {} (epoch {}){}",
                                     sum.not_finite == StepNote::kLoss ? "a finite loss" : "finite gradients", what,
                                     state_.step + 1, state_.position.epoch + 1, data),
                         state_.step + 1, state_.step, of_data);
  }
  if (!std::exchange(told_not_finite_, true))
    note(
        fmt::format("warning: {} is not finite at step {}{}{} nothing of that portion is pushed; later ones are only "
                    "counted (skipped in the summary, not_finite of each worker)",
                    what, state_.step + 1, data, data.empty() ? ":" : ";"));
  skipped_in_a_row_ = sum.weight > 0 ? 0 : skipped_in_a_row_ + 1;
  check(skipped_in_a_row_ <= kMostSkipped,
        "[train] expected a step with finite gradients now and then, got {} in a row without, last with {} at step {}",
        kMostSkipped, what, state_.step + 1);
}

// Takes one step of the workers into the run's state.
void FitRun::take_workers_step(const WorkerPool::Step& step) {
  const PortionStep& sum = step.sum;
  if (step.begins_epoch) state_.begin_epoch();
  report_.samples = step.samples;
  report_.skipped = sum.skipped > 0;
  judge_workers_step(sum);
  if (report_.skipped) ++state_.skipped;
  if (sum.weight > 0) add_loss(sum.loss / sum.weight, sum.weight);
  report_.loss = last_loss_;
  state_.samples += step.samples;
  state_.position = step.position;
  ++state_.step;
  if (!report_.skipped) learn({state_.step, report_.samples, report_.loss});
  if (step.last) stop(fmt::format("{}, which has nothing to gain any more", parts_.pool->strategy()));
}

// Position of the next sample once an epoch has ended; workers may have gone further.
data::DataPosition FitRun::next_position() const {
  if (state_.position.epoch > running_epoch_) return state_.position;
  return {running_epoch_ + 1, 0};
}

// False at the end of the epoch, and where a stop was requested while workers compute.
bool FitRun::run_workers_step() {
  report_ = {};
  if (state_.position.epoch > running_epoch_ || state_.position.sample >= plan_.samples_per_epoch) {
    epoch_over_ = true;
    return false;
  }
  set_rate();
  for (const auto& callback : parts_.callbacks) callback->before(*this);
  const auto leave = [this] { return stopping(); };
  auto step = parts_.pool->step(leave);
  while (!step && !stopping()) step = parts_.pool->step(leave);
  if (!step) return false;
  take_workers_step(*step);
  stats_ = parts_.pool->stats();
  for (const std::string& text : parts_.pool->take_notes()) note(text);
  // Workers go on while the leader evaluates: all time since the last step is theirs.
  const auto now = std::chrono::steady_clock::now();
  report_.seconds = std::chrono::duration<double>(now - stepped_).count();
  stepped_ = now;
  state_.seconds += report_.seconds;
  return true;
}

std::vector<std::pair<std::string, double>> FitRun::server_counters() {
  if (!parts_.pool || finished_before_) return {};
  return parts_.pool->server_counters();
}

// The model as the servers have it now; workers go on meanwhile.
void FitRun::fetch_weights() {
  if (!parts_.pool || finished_before_) return;
  dist::TrainedState state = trained_state();
  state.optimizer.clear();
  parts_.pool->fetch(state);
}

// Halts the workers, and takes all that they have done into the run's state. True if there was something.
bool FitRun::halt_workers() {
  parts_.pool->pause();
  bool moved = false;
  while (parts_.pool->behind()) {
    if (const auto step = parts_.pool->step()) take_workers_step(*step);
    moved = true;
  }
  parts_.pool->fetch(trained_state());
  feed_.seek(state_.position);
  return moved;
}

bool FitRun::settle_workers() {
  if (finished_before_) return false;
  const bool moved = halt_workers();
  halted_ = true;
  if (within_epoch_ && state_.position.epoch > running_epoch_) state_.owed = Owed::epoch;
  if (finished()) interrupted_ = false;  // stop was requested after the last step
  return !interrupted_ && moved;
}

void FitRun::sum_up_workers() {
  if (!parts_.pool || finished_before_) return;
  ranks_summary_ = parts_.pool->finish();
  for (std::size_t worker = 0; worker < ranks_summary_.size(); ++worker) stats_[worker] = ranks_summary_[worker].stats;
}

}  // namespace starling::train
