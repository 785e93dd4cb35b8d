// State of a run: what a checkpoint holds, and how it is put back.
#include "starling/base/error.h"
#include "starling/train/loop/fit_run.h"
#include "starling/train/run/run_checkpoint.h"
#include "starling/train/run/run_state.h"

namespace starling::train {

Checkpoint FitRun::checkpoint() {
  const dist::Pulse::Doing doing(pulse(), "save");
  expect_finite_state();
  nlohmann::json extra = {{"identity", parts_.options.identity}, {"run", to_json(state_)}};
  if (parts_.options.schedule) extra["schedule"] = parts_.options.schedule->state();
  extra["data"] = feed_.state();
  Checkpoint made = run_checkpoint(state_.step, run_parts(), std::move(extra));
  if (parts_.link) add_ranks(made);
  return made;
}

void FitRun::restore(const Checkpoint& checkpoint) {
  check(resuming_, "[train] expected a state to be put back before the run begins, got one at step {}", state_.step);
  try {
    check_identity(parts_.options.identity, checkpoint.extra);
    state_ = run_state(checkpoint.extra.at("run"));
    if (parts_.options.schedule) parts_.options.schedule->restore(checkpoint.extra.at("schedule"));
    for (const auto& text : restore_run(checkpoint, run_parts())) note(text);
    evaluation_.metrics = state_.metrics;
    const std::string told = feed_.restore(checkpoint.extra.value("data", nlohmann::json()), state_.position);
    state_.position = feed_.position();
    if (!told.empty()) note(told);
    if (parts_.link) keep_ranks(checkpoint);
  } catch (const nlohmann::json::exception& e) {
    fail("[train] expected the state of a run in the checkpoint of step {}, got: {}", checkpoint.step, e.what());
  }
}

}  // namespace starling::train
