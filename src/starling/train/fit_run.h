#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "starling/train/evaluator.h"
#include "starling/train/ranks/feed.h"
#include "starling/train/ranks/link.h"
#include "starling/train/run_checkpoint.h"
#include "starling/train/run_lock.h"
#include "starling/train/step_programs.h"
#include "starling/train/trainer.h"

namespace starling {

// One fit of a trainer: the loop over batches, and the run that callbacks see.
class FitRun final : public Run {
 public:
  struct Parts {
    nn::Module& net;
    optim::Optimizer& optimizer;
    const Objective& objective;
    const TrainerOptions& options;
    const std::vector<CallbackPtr>& callbacks;
    StepPrograms& programs;
    Evaluator& evaluator;
    RankLink* link = nullptr;  // to the other ranks; null: there are none
  };
  FitRun(const Parts& parts, Loader& loader, EvaluationData test, std::vector<std::string> class_names);

  FitResult run();

  nn::Module& net() override {
    parts_.programs.finish_updates();
    return parts_.net;
  }
  optim::Optimizer& optimizer() override {
    parts_.programs.finish_updates();
    return parts_.optimizer;
  }
  const Objective& objective() const override { return parts_.objective; }
  const RunPlan& plan() const override { return plan_; }
  const RunState& state() const override { return state_; }
  const StepReport& last() const override { return report_; }
  const Evaluation& evaluation() const override { return evaluation_; }
  CompiledFunction& program() override { return parts_.programs.main_program(); }
  bool interrupted() const override { return interrupted_; }
  void stop(std::string reason) override;
  void note(std::string_view text) override {
    if (plan_.rank == 0) progress_.note(text);
  }
  Evaluation evaluate() override;
  void report(const std::string& name, double value) override;
  Checkpoint checkpoint() override;
  void restore(const Checkpoint& checkpoint) override;
  bool settled() const override {
    return !parts_.link || strategy().settled() ||
           (strategy().meets_after(state_.step - 1) && !strategy().meets_alone());
  }
  RankLink* link() override { return parts_.link; }
  double clock() const override;
  std::span<const RankStats> ranks() const override { return stats_; }

 private:
  FitResult run_all();
  FitResult run_with_ranks();
  void begin();
  void rewind();
  const std::string& watched() const;
  void begin_ranks();
  void restore_rank();
  RankStrategy& strategy() const { return parts_.link->strategy(); }
  // The program's loss is that of all rows.
  bool global_loss() const { return !parts_.link || (strategy().global_program() && strategy().groups() == 1); }
  TrainedState trained_state() const;
  StepNote note_of_step();
  void count_exchanges(RankStats& stats) const;
  void agree(bool all);
  void consume(const std::vector<StepNote>& notes);
  void compare_replicas();
  void add_ranks(Checkpoint& checkpoint);
  void keep_ranks(const Checkpoint& checkpoint);
  void sum_up_ranks();
  void add_loss(double loss, double weight);
  bool settle();
  bool finished() const;
  bool stopping();
  void run_epoch();
  bool run_step();
  const Batch* next_batch();
  void begin_step(const Batch& first);
  void set_rate();
  void take(StepPrograms::Result result);
  void check_loss() const;
  void judge(const std::string& what);
  void after_step();
  void end_epoch(DataPosition ended);
  void pay_owed();
  bool evaluate_now();
  std::optional<Evaluation> evaluate_unless_stopped();
  void explain_once();
  void each(void (Callback::*event)(Run&));
  void before_callbacks();
  std::int64_t samples_left(DataPosition position) const;
  ProgressState progress_state(DataPosition position);
  Summary summary() const;
  RunParts run_parts() const;

  Parts parts_;
  RankFeed feed_;
  EvaluationData test_;
  RunPlan plan_;
  Progress progress_;
  RunState state_;
  StepReport report_;
  Evaluation evaluation_;
  std::vector<ProgressMetric> shown_metrics_;
  std::int64_t first_step_ = 0;
  double shown_loss_ = 0;  // a moving mean, of which so much weight has come together
  double shown_weight_ = 0;
  double last_loss_ = 0;
  bool loss_shown_ = false;
  int skipped_in_a_row_ = 0;  // because of gradients that were not finite
  double rate_ = 0;           // the learning rate now
  bool epoch_over_ = false;   // the loader has said so
  bool explained_ = false;
  nlohmann::json fresh_schedule_{};  // its state before this run
  std::optional<RunLock> lock_;      // of the run's folder, on the rank that writes
  bool resuming_ = false;
  bool all_read_through_run_ = false;  // the callbacks
  bool interrupted_ = false;
  std::string ended_by_;
  std::string end_wanted_;          // by a callback here, until all ranks have heard of it
  double began_ = 0;                // by the clock of this rank
  double clock_ = 0;                // of rank 0, as last told
  std::int64_t compared_step_ = 0;  // when replicas were last compared
  StepNote note_{};                 // what this rank will tell of the step that was made
  RankStats before_{};              // what had been exchanged when training began
  std::int64_t given_rows_ = 0;     // of this rank, in the step being made
  double told_wait_ = 0;            // seconds that this rank waited to hear of the steps of others
  std::vector<RankStats> stats_;
  std::vector<RankSummary> ranks_summary_;
  int saved_by_ = 0;                // ranks that made the checkpoint
  std::vector<NamedTensor> saved_;  // what a checkpoint holds of this rank alone, until its strategy has begun
};

}  // namespace starling
