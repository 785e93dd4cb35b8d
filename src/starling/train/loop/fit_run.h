#pragma once

#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "starling/train/loop/evaluator.h"
#include "starling/train/loop/rollbacks.h"
#include "starling/train/loop/step_programs.h"
#include "starling/train/loop/trainer.h"
#include "starling/train/ranks/feed.h"
#include "starling/train/ranks/link.h"
#include "starling/train/run/run_checkpoint.h"
#include "starling/train/run/run_lock.h"
#include "starling/train/workers/worker_pool.h"

namespace starling::train {

// One Trainer::fit: the loop over batches, and the Run that callbacks see.
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
    Rollbacks& rollbacks;
    RankLink* link = nullptr;    // connection to the other ranks; null: none
    WorkerPool* pool = nullptr;  // workers that train for this run, which computes nothing itself; null: none
  };
  FitRun(const Parts& parts, Loader& loader, EvaluationData test, std::vector<std::string> class_names);

  // nullopt: the run rolled back, and another is to resume from its newest checkpoint.
  std::optional<FitResult> run();

  nn::Module& net() override { return parts_.net; }
  optim::Optimizer& optimizer() override { return parts_.optimizer; }
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
  void with_checkpoint(const std::function<void(const Checkpoint&)>& use) override;
  void restore(const Checkpoint& checkpoint) override;
  bool settled() const override {
    return !parts_.link || strategy().settled() ||
           (strategy().meets_after(state_.step - 1) && !strategy().meets_alone());
  }
  RankLink* link() override { return parts_.link; }
  double clock() const override;
  std::span<const RankStats> ranks() const override { return stats_; }
  std::vector<std::pair<std::string, double>> server_counters() override;

 private:
  static constexpr int kMostSkipped = 50;  // consecutive skipped steps before giving up

  FitResult run_all();
  void keep(const std::function<void(const Checkpoint&)>& use);
  void keep_with_owed(const std::function<void(const Checkpoint&)>& use);
  std::optional<FitResult> run_with_ranks();
  bool roll_back(const NotFiniteError& error);
  void expect_checkpoint() const;
  void check_state();
  void expect_finite_state();
  std::int64_t last_finite_step();
  std::string first_not_finite() const;
  bool state_due() const;
  void begin();
  void rewind();
  const std::string& watched() const;
  void begin_ranks();
  void restore_rank();
  dist::RankStrategy& strategy() const { return parts_.link->strategy(); }
  // True if the program's loss covers the rows of all ranks.
  bool global_loss() const { return !parts_.link || (strategy().global_program() && strategy().groups() == 1); }
  dist::TrainedState trained_state() const;
  StepNote note_of_step();
  void count_exchanges(RankStats& stats) const;
  void agree(bool all);
  void hear_all();
  void consume(const std::vector<StepNote>& notes);
  [[noreturn]] void refuse(const StepNote& note, int rank) const;
  std::string_view hint_to_go_back() const;
  NotFiniteError not_finite_state(const std::string& where, std::int64_t step, std::int64_t finite) const;
  void compare_replicas();
  std::vector<NamedTensor> rank_tensors(Checkpoint& checkpoint, std::vector<dist::ModelSum>& sums);
  void keep_ranks(const Checkpoint& checkpoint);
  bool is_part(const std::string& saved) const;
  void sum_up_ranks();
  void add_loss(double loss, double weight);
  bool settle();
  void show_whole();
  bool finished() const;
  bool stopping();
  void run_epoch();
  bool run_step();
  void begin_workers();
  void let_workers_run();
  std::string not_finite_value(const PortionStep& sum) const;
  void judge_workers_step(const PortionStep& sum);
  void take_workers_step(const WorkerPool::Step& step);
  bool run_workers_step();
  void fetch_weights();
  bool halt_workers();
  bool settle_workers();
  void sum_up_workers();
  const Batch* next_batch();
  void begin_step(const Batch& first);
  void set_rate();
  void observe(double metric);
  data::DataPosition epoch_end() const { return {running_epoch_, plan_.samples_per_epoch}; }
  data::DataPosition next_position() const;
  void take(StepPrograms::Result result);
  // `of_this_batch`: the loss of the batch at hand, in which all ranks that share it may look for the reason.
  void check_loss(double loss, std::int64_t step, std::int64_t epoch, bool of_this_batch) const;
  std::string bad_input() const;
  void learn(const StepLoss& loss);
  void hear_losses(bool all);
  void judge(const std::string& what);
  void after_step();
  void end_epoch(data::DataPosition ended);
  void pay_owed();
  bool evaluate_now();
  std::optional<Evaluation> evaluate_unless_stopped();
  std::optional<Evaluation> evaluate_on_ranks(const std::function<bool()>& stop);
  std::optional<Evaluation> evaluate_here(const std::function<bool()>& stop, bool equal);
  dist::RankProgress* rank_progress() const { return parts_.link ? parts_.link->rank_progress() : nullptr; }
  void progress() const {
    if (parts_.link) parts_.link->progress();
  }
  void explain_once();
  void each(void (Callback::*event)(Run&));
  std::int64_t samples_left(data::DataPosition position) const;
  ProgressState progress_state(data::DataPosition position);
  std::string hash_of(const std::vector<NamedTensor>& weights) const;
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
  double shown_loss_ = 0;  // moving average of the loss; shown_weight_ is the sum of its weights
  double shown_weight_ = 0;
  double last_loss_ = 0;
  struct LateStep {
    std::int64_t step, epoch, samples;
  };
  std::deque<LateStep> late_steps_{};  // steps whose losses are on their way from the device
  bool loss_shown_ = false;
  int skipped_in_a_row_ = 0;                         // steps skipped for non-finite gradients
  bool told_not_finite_ = false;                     // a step or portion was skipped, and that was told
  double rate_ = 0;                                  // current learning rate
  bool left_out_ = false;                            // the current step is left out after a rollback
  bool resumed_ = false;                             // the run goes on from a checkpoint
  std::int64_t finite_step_ = 0;                     // last step after which this rank's state was found finite
  std::string not_finite_;                           // name of this rank's tensor that is not finite
  bool epoch_over_ = false;                          // set when the loader reports the end
  std::int64_t running_epoch_ = 0;                   // with a pool: epoch whose end is not evaluated yet
  bool within_epoch_ = false;                        // with a pool: that epoch's steps are being made
  std::chrono::steady_clock::time_point stepped_{};  // with a pool: when its last step was taken
  bool halted_ = false;                              // with a pool: the workers are, for good
  bool finished_before_ = false;                     // with a pool: there was nothing to train
  bool shown_ = false;                               // weights stored in pieces are whole on every rank, for good
  bool explained_ = false;
  nlohmann::json fresh_schedule_{};  // state of the schedule before this run
  std::optional<RunLock> lock_;      // lock of the run folder, on the rank that writes
  bool resuming_ = false;
  bool interrupted_ = false;
  std::string ended_by_;
  std::string end_wanted_;          // reason of a callback's stop(), until all ranks know
  double began_ = 0;                // start time on this rank's clock
  double started_ = 0;              // the same in seconds since 1970
  double clock_ = 0;                // rank 0's clock as last received
  std::int64_t compared_step_ = 0;  // step at which replicas were last compared
  StepNote note_{};                 // next note of the rank to the others
  RankStats before_{};              // communication counters when training began
  std::int64_t given_rows_ = 0;     // rows given to this rank in the current step
  double told_wait_ = 0;            // seconds spent waiting for the notes of other ranks
  std::vector<RankStats> stats_;
  std::vector<RankSummary> ranks_summary_;
  int saved_by_ = 0;             // number of ranks that made the checkpoint
  bool other_strategy_ = false;  // that made the checkpoint
  // Tensors of all ranks in a checkpoint, whose bytes come once the strategy has begun.
  struct SavedOfRank {
    NamedTensor saved{};
    std::string name{};    // of the tensor of this rank that it is for; empty: it is for others
    bool is_part = false;  // of a sum over all ranks
  };
  Checkpoint saved_ranks_{};
  std::vector<SavedOfRank> saved_;
};

}  // namespace starling::train
