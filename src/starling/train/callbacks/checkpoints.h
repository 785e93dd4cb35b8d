#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "starling/train/callback.h"
#include "starling/train/checkpoint/background_saver.h"
#include "starling/train/checkpoint/checkpoint.h"
#include "starling/train/loop/resume.h"

namespace starling {

struct CheckpointsOptions {
  std::filesystem::path folder{};     // empty: checkpoints/ in the folder of the run
  std::int64_t every_steps = 0;       // 0: off; each epoch and the end of a run are always saved
  double every_seconds = 0;           // 0: off
  int keep = 3;                       // newest checkpoints to keep, at least 2
  std::string best{};                 // metric whose best state is kept in <folder>-best
  std::optional<bool> lowest{};       // lower is better; not set: decided by the metric
  Resume resume = Resume::automatic;  // from the newest intact checkpoint, or from the beginning
  bool background = true;             // end a save on a background thread while training goes on
  // Bytes that saves may hold beside the state of the run, over all saves under way. What does not fit is written
  // before training goes on.
  std::uint64_t save_memory = train::kSaveMemory;
  // Called with the step, on the thread that writes, before a checkpoint is made durable and appears.
  train::BackgroundSaver::BeforePublishing before_publishing{};
};

// Saves checkpoints of a run and resumes from the newest intact one. A failed save is reported and training continues.
// Add it last, so that it sees what other callbacks have done.
class Checkpoints final : public Callback {
 public:
  explicit Checkpoints(CheckpointsOptions options = {});

  std::string name() const override { return "checkpoints"; }
  bool looks_at_loss(std::int64_t) const override { return false; }
  void attach(Run& run) override;
  bool resume(Run& run) override;
  void evaluated(Run& run) override;
  void epoch(Run& run) override;
  void settled(Run& run) override;
  void end(Run& run) override;
  nlohmann::json state() const override;
  void restore(const nlohmann::json& state) override;

  std::int64_t saved_step() const { return saved_step_; }  // newest step in a checkpoint; -1: none

 private:
  void save(Run& run, bool skips = true);
  static void wait_for_writer(Run& run);
  void tell(Run& run, const std::optional<train::BackgroundSaver::Outcome>& outcome);
  bool still_busy(Run& run, train::BackgroundSaver* saver, std::chrono::milliseconds patience) const;
  void wait_for_savers(Run& run);
  void save_best(Run& run, bool skips = true);
  train::BackgroundSaver::Outcome save_now(const CheckpointFolder& folder, const Checkpoint& made) const;
  void tell_best(Run& run, const std::optional<train::BackgroundSaver::Outcome>& outcome);
  void step_aside(Run& run);
  bool due(Run& run);
  std::optional<Checkpoint> newest(Run& run);

  CheckpointsOptions options_;
  std::filesystem::path folder_;
  std::optional<CheckpointFolder> checkpoints_;
  std::unique_ptr<train::BackgroundSaver> saver_;
  std::unique_ptr<train::BackgroundSaver> best_saver_;
  bool lowest_ = false;
  std::int64_t saved_step_ = -1;
  std::int64_t tried_step_ = -1;  // step of the last save, which may have failed
  bool skipped_ = false;          // true: the last save was left out, since the one before was still under way
  double tried_at_ = 0;           // time of the last save, by the run's clock
  bool writes_ = true;            // true: files are written by this rank
  std::int64_t due_step_ = -1;    // step of a due checkpoint that waits for the ranks to meet; -1: none
  bool epoch_ended_ = false;
  bool best_now_ = false;
  bool was_nan_ = false;  // an evaluation of this session told NaN as the metric of the best
  std::optional<double> best_;
  std::int64_t best_step_ = -1;
  std::optional<double> kept_best_;  // best_ and best_step_ of the last best checkpoint that was not left out
  std::int64_t kept_best_step_ = -1;
};

inline std::shared_ptr<Checkpoints> checkpoints(CheckpointsOptions options = {}) {
  return std::make_shared<Checkpoints>(std::move(options));
}

}  // namespace starling
