#include "starling/train/callbacks/checkpoints.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <system_error>
#include <utility>

#include "starling/base/error.h"
#include "starling/train/callbacks/watched_metric.h"
#include "starling/train/ranks/link.h"
#include "starling/train/run/launch_id.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

// For the save before to end, when the next one is due. What is best may not come again, and is waited for longer.
constexpr std::chrono::milliseconds kSaveBefore{1'000}, kBestBefore{5'000};

constexpr std::int64_t kPatience = 64;  // steps a due checkpoint waits for the ranks to meet

fs::path beside(const fs::path& folder, const std::string& suffix) {
  return folder.parent_path() / (folder.filename().string() + suffix);
}

// Keeps two checkpoints, so that one is complete while the next is written.
CheckpointFolder best_folder(const fs::path& folder) { return CheckpointFolder(beside(folder, "-best"), 2); }

dist::RankProgress* rank_progress_of(Run& run) { return run.link() == nullptr ? nullptr : run.link()->rank_progress(); }

}  // namespace

Checkpoints::Checkpoints(CheckpointsOptions options) : options_(std::move(options)) {
  check(options_.every_steps >= 0 && options_.every_seconds >= 0,
        "[checkpoints] expected every_steps and every_seconds of at least 0, got {} and {}", options_.every_steps,
        options_.every_seconds);
}

void Checkpoints::attach(Run& run) {
  writes_ = run.plan().rank == 0;
  lowest_ = options_.lowest.value_or(!run.plan().higher_is_better(options_.best));
  saved_step_ = tried_step_ = best_step_ = kept_best_step_ = -1;
  best_.reset();
  kept_best_.reset();
  tried_at_ = run.clock();
  due_step_ = -1;
  was_nan_ = best_now_ = epoch_ended_ = false;  // of a run that was rolled back
  skipped_ = false;
  if (!writes_) return;
  check(!options_.folder.empty() || !run.plan().folder.empty(),
        "[checkpoints] expected a folder for them or for the run, got none");
  folder_ = options_.folder.empty() ? run.plan().folder / "checkpoints" : options_.folder;
  checkpoints_.emplace(folder_, options_.keep);
  wait_for_savers(run);
  saver_.reset();
  best_saver_.reset();
  saved_step_ = -1;
  if (!options_.background) return;
  const bool two = !options_.best.empty();  // both may be under way at a time
  const std::uint64_t each = options_.save_memory / (two ? 2 : 1);
  saver_ = std::make_unique<train::BackgroundSaver>(*checkpoints_, each, options_.before_publishing);
  if (!two) return;
  best_saver_ = std::make_unique<train::BackgroundSaver>(best_folder(folder_), each, options_.before_publishing);
}

bool Checkpoints::resume(Run& run) {
  std::optional<Checkpoint> found = writes_ ? newest(run) : std::nullopt;
  if (run.link() != nullptr) found = run.link()->share(std::move(found));  // rank 0 reads, all receive
  if (!found) return false;
  run.restore(*found);
  saved_step_ = run.state().step;
  const bool same = run.state().owed == Owed::nothing && run.plan().rolled_back == 0;
  tried_step_ = same ? saved_step_ : -1;  // pending work will change the state; a rollback is to be kept
  run.note(fmt::format("resuming {} at step {}", folder_.string(), run.state().step));
  return true;
}

std::optional<Checkpoint> Checkpoints::newest(Run& run) {
  if (checkpoints_->steps().empty()) return std::nullopt;
  const bool anew = options_.resume == Resume::none && run.plan().rolled_back == 0;
  if (anew && !train::launched_again()) {
    step_aside(run);
    return std::nullopt;
  }
  const dist::RankProgress::Uncounted reading(rank_progress_of(run));
  auto loaded = checkpoints_->load_latest();
  // A run that started over goes on after a restart, but only from what it has itself written since.
  if (anew && (!loaded || loaded->checkpoint.extra.value("launch", "") != train::launch_id())) {
    step_aside(run);
    return std::nullopt;
  }
  for (const auto& reason : loaded.value().skipped) run.note("warning: skipped a checkpoint: " + reason);
  return std::move(loaded.value().checkpoint);
}

// Renames the old checkpoints: a later resume must not find them, and nothing may be lost.
void Checkpoints::step_aside(Run& run) {
  for (int number = 1;; ++number) {
    const fs::path aside = beside(folder_, fmt::format("-before-{}", number));
    std::error_code error;
    if (fs::exists(aside, error)) continue;
    fs::rename(folder_, aside, error);
    check(!error, "[checkpoints] expected to move those of an earlier run to {}, got: {}", aside.string(),
          error.message());
    fs::rename(beside(folder_, "-best"), aside.string() + "-best", error);  // may not exist
    run.note(fmt::format("starting over; the checkpoints of an earlier run are now in {}", aside.string()));
    return;
  }
}

void Checkpoints::evaluated(Run& run) {
  // A second evaluation at the saved step means that the ranks have since settled on one model: save again.
  if (run.state().step == tried_step_) due_step_ = tried_step_;
  if (options_.best.empty()) return;
  const auto value = watched_metric(run, options_.best, "checkpoints");
  was_nan_ = was_nan_ || (value && std::isnan(*value));
  if (!value || std::isnan(*value) || (best_ && (lowest_ ? *value >= *best_ : *value <= *best_))) return;
  best_ = value;
  best_step_ = run.state().step;
  best_now_ = true;
}

void Checkpoints::epoch(Run&) { epoch_ended_ = true; }

// Equal on all ranks. A due checkpoint waits for the next step at which the ranks hold one model, at most kPatience
// steps; the end of an epoch saves at once.
bool Checkpoints::due(Run& run) {
  if (epoch_ended_) return true;
  if (run.plan().rolls_back && tried_step_ < 0) return true;
  const std::int64_t step = run.state().step;
  const bool now = (options_.every_steps > 0 && step % options_.every_steps == 0) ||
                   (options_.every_seconds > 0 && run.clock() - tried_at_ >= options_.every_seconds);
  if (now && due_step_ < 0) due_step_ = step;
  return due_step_ >= 0 && (run.settled() || step - due_step_ >= kPatience);
}

void Checkpoints::settled(Run& run) {
  if (saver_) tell(run, saver_->poll());
  if (best_saver_) tell_best(run, best_saver_->poll());
  if (best_now_) save_best(run);
  best_now_ = false;
  if (due(run)) save(run);
  epoch_ended_ = false;
}

void Checkpoints::end(Run& run) {
  if (best_now_) save_best(run, false);
  best_now_ = false;
  if (tried_step_ != run.state().step || due_step_ >= 0 || skipped_) save(run, false);
  wait_for_savers(run);
  if (!options_.best.empty() && best_step_ < 0 && run.state().evaluated_step >= 0 && !run.interrupted())
    run.note(fmt::format("warning: no checkpoint of the best {}: {}", options_.best,
                         was_nan_ ? "it was NaN in every evaluation" : "no evaluation told it"));
}

// Where ranks write into memory that rank 0 saves (the weights of hogwild, the centre of easgd), they wait until all of
// it is written or copied.
void Checkpoints::wait_for_writer(Run& run) {
  if (run.link() == nullptr) return;
  const dist::RankStrategy& strategy = run.link()->strategy();
  if (strategy.meets_alone() || strategy.updates()) run.link()->meet();
}

// At the end of a run its last state is worth the wait.
void Checkpoints::wait_for_savers(Run& run) {
  const dist::RankProgress::Uncounted writing(rank_progress_of(run));
  if (saver_) tell(run, saver_->wait());
  if (best_saver_) tell_best(run, best_saver_->wait());
}

// True if the save before is still under way, on a slow disk. Waiting for it would hold up the rank that writes, and
// with it all others, until the supervision takes it for hung. It decides for all ranks, who would have to lend their
// states.
bool Checkpoints::still_busy(Run& run, train::BackgroundSaver* saver, std::chrono::milliseconds patience) const {
  if (!options_.background) return false;
  const dist::RankProgress::Uncounted writing(writes_ ? rank_progress_of(run) : nullptr);
  const bool busy = saver != nullptr && !saver->idle_within(patience);
  return run.link() == nullptr ? busy : run.link()->gather(busy ? 1 : 0).front() != 0;
}

// All ranks take part in making the checkpoint; one writes it.
void Checkpoints::save(Run& run, bool skips) {
  tried_step_ = run.state().step;
  tried_at_ = run.clock();
  due_step_ = -1;
  skipped_ = skips && still_busy(run, saver_.get(), kSaveBefore);
  if (skipped_) {
    run.note(fmt::format("warning: no checkpoint of step {}: the save before it is still being written", tried_step_));
    return;
  }
  std::optional<train::BackgroundSaver::Outcome> outcome;
  run.with_checkpoint([&](const Checkpoint& made) {
    const dist::RankProgress::Uncounted writing(writes_ ? rank_progress_of(run) : nullptr);
    if (!writes_) {
      saved_step_ = tried_step_;
    } else if (saver_) {
      outcome = saver_->save(made);
    } else {
      outcome = save_now(*checkpoints_, made);
    }
  });
  wait_for_writer(run);
  tell(run, outcome);
}

train::BackgroundSaver::Outcome Checkpoints::save_now(const CheckpointFolder& folder, const Checkpoint& made) const {
  if (options_.before_publishing) options_.before_publishing(made.step);
  return {made.step, folder.save(made)};
}

void Checkpoints::tell(Run& run, const std::optional<train::BackgroundSaver::Outcome>& outcome) {
  if (!outcome) return;
  if (outcome->result) {
    saved_step_ = outcome->step;
  } else {
    run.note(
        fmt::format("warning: no checkpoint of step {}, training goes on: {}", outcome->step, outcome->result.error()));
  }
}

void Checkpoints::save_best(Run& run, bool skips) {
  if (skips && still_busy(run, best_saver_.get(), kBestBefore)) {
    run.note(fmt::format("warning: no checkpoint of the best {} at step {}: the one before it is still being written",
                         options_.best, run.state().step));
    best_ = kept_best_;  // the next one that is better than what is kept is saved
    best_step_ = kept_best_step_;
    return;
  }
  kept_best_ = best_;
  kept_best_step_ = best_step_;
  std::optional<train::BackgroundSaver::Outcome> outcome;
  run.with_checkpoint([&](const Checkpoint& made) {
    const dist::RankProgress::Uncounted writing(writes_ ? rank_progress_of(run) : nullptr);
    if (writes_ && best_saver_) {
      outcome = best_saver_->save(made);
    } else if (writes_) {
      outcome = save_now(best_folder(folder_), made);
    }
  });
  wait_for_writer(run);
  tell_best(run, outcome);
}

void Checkpoints::tell_best(Run& run, const std::optional<train::BackgroundSaver::Outcome>& outcome) {
  if (!outcome || outcome->result) return;
  run.note(fmt::format("warning: no checkpoint of the best {} at step {}, training goes on: {}", options_.best,
                       outcome->step, outcome->result.error()));
}

nlohmann::json Checkpoints::state() const {
  if (options_.best.empty()) return {};
  return {{"metric", options_.best},
          {"lowest", lowest_},
          {"best", best_ ? nlohmann::json(*best_) : nlohmann::json()},
          {"best_step", best_step_}};
}

// Ignores the best value of another metric.
void Checkpoints::restore(const nlohmann::json& state) {
  if (state.value("metric", options_.best) != options_.best) return;
  if (!state.at("best").is_null()) best_ = state.at("best").get<double>();
  best_step_ = state.at("best_step").get<std::int64_t>();
  kept_best_ = best_;
  kept_best_step_ = best_step_;
}

}  // namespace starling
