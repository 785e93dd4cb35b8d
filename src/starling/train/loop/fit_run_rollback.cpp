// Parts of FitRun for values that are not finite: looking at the state, and going back to a checkpoint.

#include <fmt/format.h>

#include <algorithm>

#include "starling/base/error.h"
#include "starling/train/checkpoint/finite.h"
#include "starling/train/loop/fit_run.h"

namespace starling::train {

// Advice to go back, where that is possible: parameter servers keep no older state.
std::string_view FitRun::hint_to_go_back() const {
  return plan_.rolls_back || parts_.pool ? "" : "; train.non_finite: rollback goes back by itself";
}

NotFiniteError FitRun::not_finite_state(const std::string& where, std::int64_t step, std::int64_t finite) const {
  return {
      fmt::format("[train] expected finite weights and optimizer state, got an infinity or NaN {} at step {} (it was "
                  "finite after step {}{})",
                  where, step, finite, hint_to_go_back()),
      step, finite};
}

bool FitRun::state_due() const {
  if (parts_.options.non_finite == NonFinite::ignore) return false;
  if (parts_.rollbacks.looks_at(state_.step)) return true;
  const std::int64_t every = parts_.options.finite_every;
  const auto parameters = parts_.optimizer.parameters();
  const bool here = parameters.empty() || parameters.front().device() == kCpu;
  return here && every > 0 && state_.step % every == 0;
}

// Name of the first tensor of this rank that is not finite; empty if all are.
std::string FitRun::first_not_finite() const {
  std::string name = first_non_finite(run_parts());
  if (!name.empty() || !parts_.link) return name;
  for (const auto& [own, tensor] : strategy().tensors()) {
    if (!all_finite(tensor)) return own;
  }
  return "";
}

// Looks at this rank's state after a step, now and then. Other ranks learn of it from the note of the step.
void FitRun::check_state() {
  if (!state_due() || note_.not_finite != 0) return;
  not_finite_ = first_not_finite();
  if (not_finite_.empty()) {
    finite_step_ = state_.step;
    return;
  }
  if (!parts_.link) throw not_finite_state(fmt::format("in '{}'", not_finite_), state_.step, finite_step_);
  note_.not_finite = StepNote::kState;
  note_.unchecked = static_cast<std::uint32_t>(state_.step - finite_step_);
}

// Before a checkpoint: no rank may go on while rank 0 finds that it has nothing to save. Collective.
void FitRun::expect_finite_state() {
  if (parts_.options.non_finite == NonFinite::ignore) return;
  not_finite_ = first_not_finite();
  std::string where = not_finite_.empty() ? "" : fmt::format("in '{}'", not_finite_);
  if (parts_.link) {
    const dist::Verdict verdict = parts_.link->vote_non_finite(not_finite_);
    where = verdict.finite() ? "" : "on " + verdict.text();
  }
  if (!where.empty()) throw not_finite_state(where, state_.step, last_finite_step());
  finite_step_ = state_.step;
}

// Step after which the state of all ranks was last found finite. Collective.
std::int64_t FitRun::last_finite_step() {
  if (!parts_.link) return finite_step_;
  const auto all = parts_.link->gather(finite_step_);
  return *std::min_element(all.begin(), all.end());
}

// Leaves the ranks at the same point, with nothing under way between them.
bool FitRun::roll_back(const NotFiniteError& error) {
  std::string told;
  if (!parts_.rollbacks.take(error, told)) return false;
  if (shown_) strategy().unshow();  // restored weights go into pieces
  if (parts_.link) {
    while (parts_.link->outstanding() > 0) static_cast<void>(parts_.link->take());
    parts_.link->meet();
  }
  note(fmt::format("warning: {}: going back to the newest checkpoint; {}", parts_.rollbacks.reason(), told));
  return true;
}

// After a rollback.
void FitRun::expect_checkpoint() const {
  const Rollbacks& rollbacks = parts_.rollbacks;
  if (plan_.rolled_back == 0) return;
  if (!resumed_)
    fail("{} (expected a checkpoint to go back to, got none: train.non_finite: rollback needs them)",
         rollbacks.reason());
  if (rollbacks.too_many())
    fail("{} (after {} rollbacks to the checkpoint of step {}, as many as train.rollbacks allows)", rollbacks.reason(),
         rollbacks.most(), state_.step);
}

}  // namespace starling::train
