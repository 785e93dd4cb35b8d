#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "starling/train/evaluator.h"
#include "starling/train/run_checkpoint.h"
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
  };
  FitRun(const Parts& parts, Loader& loader, EvaluationData test, std::vector<std::string> class_names);

  FitResult run();

  nn::Module& net() override { return parts_.net; }
  optim::Optimizer& optimizer() override { return parts_.optimizer; }
  const Objective& objective() const override { return parts_.objective; }
  const RunPlan& plan() const override { return plan_; }
  const RunState& state() const override { return state_; }
  const StepReport& last() const override { return report_; }
  const Evaluation& evaluation() const override { return evaluation_; }
  CompiledFunction& program() override { return parts_.programs.main_program(); }
  void stop(std::string reason) override;
  void note(std::string_view text) override { progress_.note(text); }
  Evaluation evaluate() override;
  void report(const std::string& name, double value) override;
  Checkpoint checkpoint() const override;
  void restore(const Checkpoint& checkpoint) override;

 private:
  void begin();
  bool finished() const;
  bool stopping();
  void run_epoch();
  bool run_step();
  const Batch* next_batch();
  void begin_step(const Batch& first);
  void set_rate();
  void take(StepPrograms::Result result);
  void check_loss() const;
  void after_step();
  void end_epoch(DataPosition ended);
  void evaluate_now();
  void explain_once();
  void each(void (Callback::*event)(Run&));
  ProgressState progress_state(DataPosition position);
  Summary summary() const;
  RunParts run_parts() const;

  Parts parts_;
  Loader& loader_;
  EvaluationData test_;
  RunPlan plan_;
  Progress progress_;
  RunState state_;
  StepReport report_;
  Evaluation evaluation_;
  std::vector<ProgressMetric> shown_metrics_;
  std::int64_t first_step_ = 0;
  double shown_loss_ = 0;
  double rate_ = 0;          // the learning rate now
  bool epoch_over_ = false;  // the loader has said so
  bool explained_ = false;
  bool resuming_ = false;
  bool interrupted_ = false;
  std::string ended_by_;
};

}  // namespace starling
