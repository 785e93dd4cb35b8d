// State of a run: what a checkpoint holds, and how it is put back.
#include <algorithm>
#include <utility>

#include "starling/base/error.h"
#include "starling/train/loop/fit_run.h"
#include "starling/train/run/run_checkpoint.h"
#include "starling/train/run/run_state.h"

namespace starling::train {

// Tensors of other ranks, brought here, which only rank 0 does.
Checkpoint FitRun::checkpoint() {
  Checkpoint whole;
  with_checkpoint([&](const Checkpoint& made) {
    whole = made;
    whole.fetch = nullptr;
    for (NamedTensor& one : whole.tensors) {
      if (one.tensor.device().kind != DeviceKind::null || !made.fetch) continue;
      const NamedTensor elsewhere = std::exchange(one, {one.name, empty(one.tensor.shape(), one.tensor.dtype())});
      auto* to = static_cast<std::byte*>(one.tensor.raw());
      made.fetch(elsewhere, [&](std::span<const std::byte> bytes) {
        to = std::copy(bytes.begin(), bytes.end(), to);
        return true;
      });
    }
  });
  return whole;
}

void FitRun::with_checkpoint(const std::function<void(const Checkpoint&)>& use) {
  const dist::RankProgress::Doing doing(rank_progress(), "save");
  if (parts_.link) hear_all();
  hear_losses(true);
  if (parts_.pool && !halted_ && !finished_before_) {
    halt_workers();
    keep_with_owed(use);
    parts_.pool->resume();
    return;
  }
  keep(use);
}

// Workers may have gone beyond the epoch whose end is still to be evaluated.
void FitRun::keep_with_owed(const std::function<void(const Checkpoint&)>& use) {
  const Owed owed = state_.owed;
  if (within_epoch_ && state_.position.epoch > running_epoch_) state_.owed = Owed::epoch;
  keep(use);
  state_.owed = owed;
}

void FitRun::keep(const std::function<void(const Checkpoint&)>& use) {
  expect_finite_state();
  nlohmann::json extra = {{"identity", parts_.options.identity}, {"run", to_json(state_)}};
  if (parts_.options.schedule) extra["schedule"] = parts_.options.schedule->state();
  if (parts_.rollbacks.count() > 0) extra["rollbacks"] = parts_.rollbacks.state();
  extra["data"] = feed_.state();
  Checkpoint made = run_checkpoint(state_.step, run_parts(), std::move(extra));
  if (!parts_.link) return use(made);
  std::vector<dist::ModelSum> sums;
  const std::vector<NamedTensor> own = rank_tensors(made, sums);
  parts_.link->lend(own, made, use, strategy().sharded(), sums);
}

void FitRun::restore(const Checkpoint& checkpoint) {
  check(resuming_, "[train] expected a state to be put back before the run begins, got one at step {}", state_.step);
  try {
    check_identity(parts_.options.identity, checkpoint.extra);
    state_ = run_state(checkpoint.extra.at("run"));
    if (parts_.options.schedule) parts_.options.schedule->restore(checkpoint.extra.at("schedule"));
    // A run that goes back knows more than the checkpoint, which was made before.
    if (plan_.rolled_back == 0) parts_.rollbacks.restore(checkpoint.extra.value("rollbacks", nlohmann::json()));
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
