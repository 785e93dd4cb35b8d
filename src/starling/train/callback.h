#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "starling/nn/module.h"
#include "starling/optim/optimizer.h"
#include "starling/runtime/compile.h"
#include "starling/train/checkpoint/checkpoint.h"
#include "starling/train/loop/evaluation.h"
#include "starling/train/objective.h"
#include "starling/train/ranks/step_note.h"
#include "starling/train/run/run_state.h"

namespace starling::train {
class RankLink;
}

namespace starling {

// Extra outputs that a callback requests of one step. Such a step runs a separate program that returns them; other
// steps pay nothing.
struct StepWants {
  bool gradients = false;    // of every parameter, as the optimizer gets them: averaged, unscaled, before clipping
  bool activations = false;  // last output of each module
  bool prediction = false;
};

// Requested outputs of the last step; empty if not requested. Valid until the next step.
struct StepValues {
  std::vector<NamedTensor> gradients{};    // by parameter name
  std::vector<NamedTensor> activations{};  // by module path, in execution order
  Tensor prediction{};
};

// Report of the last step. With gradient accumulation it covers several batches.
struct StepReport {
  double loss = 0;  // weighted mean over the samples; the newest known if no callback looks at that of the step
  double lr = 0;    // learning rate of the step
  double gradient_norm = 0;          // before clipping; set only if clip_norm is used
  double seconds = 0;                // duration, including the wait for data
  double wait_seconds = 0;           // time spent waiting for data
  std::int64_t samples = 0;          // samples in the step
  bool skipped = false;              // no update: the gradients were not finite
  std::span<const Tensor> fields{};  // fields of the last batch; valid during the callback
  StepValues values{};
};

// Planned extent of a run.
struct RunPlan {
  std::int64_t epochs = 0;
  std::int64_t steps = 0;              // of the whole run; 0: unknown
  std::int64_t steps_per_epoch = 0;    // 0: unknown (a stream)
  std::int64_t samples_per_epoch = 0;  // 0: unknown
  std::int64_t batch = 0;
  std::int64_t seed = 0;
  std::filesystem::path folder{};  // run folder; empty: no files
  std::vector<std::string> class_names{};
  int rank = 0;  // number of the rank among `ranks`; only rank 0 writes files and prints
  int ranks = 1;
  bool rolls_back = false;  // may go back to its newest checkpoint, so that it needs one from the beginning
  int rolled_back = 0;      // rollbacks so far: the run goes on from a checkpoint that it has made itself
  struct PlannedMetric {
    std::string name;
    bool higher_is_better = true;
  };
  std::vector<PlannedMetric> metrics{};  // metrics of the evaluations, in order
  // Direction of a metric; a derived one such as ema_accuracy has that of its base metric.
  bool higher_is_better(const std::string& metric) const;
  // True if callbacks derive the metric (ema_accuracy) from one of the evaluation, so that it may appear later.
  bool made_by_callbacks(const std::string& metric) const;
};

// Interface of a run for callbacks. With several ranks, each has its own Run with the same callbacks, whose decisions
// must depend only on values equal on all ranks, such as steps, metrics and clock().
class Run {
 public:
  virtual ~Run() = default;

  virtual nn::Module& net() = 0;
  virtual optim::Optimizer& optimizer() = 0;
  virtual const Objective& objective() const = 0;
  virtual const RunPlan& plan() const = 0;
  virtual const RunState& state() const = 0;         // step, epoch, position, metrics of the last evaluation
  virtual const StepReport& last() const = 0;        // the last step
  virtual const Evaluation& evaluation() const = 0;  // last evaluation, with metrics reported by callbacks
  virtual CompiledFunction& program() = 0;           // the regular step's program: graph, profiler

  virtual bool interrupted() const = 0;          // stopped on request before its end; resumable
  virtual void stop(std::string reason) = 0;     // ends the run after this step as if that were its planned end
  virtual void note(std::string_view text) = 0;  // prints a line beside the progress line
  virtual Evaluation evaluate() = 0;             // evaluates the current weights
  virtual void report(const std::string& name, double value) = 0;  // adds a metric to the last evaluation

  // Everything needed to resume: parameters, buffers, optimizer, random state, data position, schedule, callback
  // states. The tensors are the run's own, not copies. restore() may be called from Callback::resume() only. With
  // several ranks both are collective, and only rank 0's checkpoint is complete.
  virtual Checkpoint checkpoint() = 0;
  // Calls use() with such a checkpoint, which is good for its time alone, and returns when it has. Collective, too. The
  // states of other ranks come to rank 0 while they are read (Checkpoint::fetch), so that it need not hold them all.
  virtual void with_checkpoint(const std::function<void(const Checkpoint&)>& use) { use(checkpoint()); }
  virtual void restore(const Checkpoint& checkpoint) = 0;
  // True if all ranks hold the same model now, so that a checkpoint is consistent; see RankStrategy::settled.
  virtual bool settled() const { return true; }

  virtual train::RankLink* link() { return nullptr; }  // connection to the other ranks; null: none
  virtual double clock() const = 0;                    // seconds, equal on all ranks; for time-based schedules
  // Statistics of every rank as last received; empty with one rank.
  virtual std::span<const RankStats> ranks() const { return {}; }
  // Counters of the run's parameter servers so far, sums over them (dist/ps): asks them. Empty: it has none.
  virtual std::vector<std::pair<std::string, double>> server_counters() { return {}; }
};

// Loss of one step, once it is known.
struct StepLoss {
  std::int64_t step = 0;     // number of the step, from 1
  std::int64_t samples = 0;  // samples in it
  double loss = 0;
};

// Hooks into a training run. All are called on the training thread, callbacks in the order they were added; an
// exception ends the run. Order within a step: before, the update, step; then, if due, the evaluation and evaluated,
// the end of the epoch and epoch; finally settled.
class Callback {
 public:
  virtual ~Callback() = default;

  // Key of the callback's state in checkpoints. Two callbacks of the same name are refused if either has state.
  virtual std::string name() const = 0;

  // Called first: creates what state() and tensors() return.
  virtual void attach([[maybe_unused]] Run& run) {}
  // Called before begin. May restore an earlier run (Run::restore) and return true; later callbacks are then not asked.
  virtual bool resume([[maybe_unused]] Run& run) { return false; }
  virtual void begin([[maybe_unused]] Run& run) {}
  virtual StepWants before([[maybe_unused]] Run& run) { return {}; }
  virtual void step([[maybe_unused]] Run& run) {}
  // Called with the loss of every step that made an update, in order, before step() of the same step. On a GPU that is
  // so only for steps after which a callback looks at the loss (Run::last), for which the host then waits; losses of
  // others come some steps later, all of them before an evaluation, a checkpoint and the end.
  virtual void learned([[maybe_unused]] Run& run, [[maybe_unused]] const StepLoss& loss) {}
  virtual bool looks_at_loss([[maybe_unused]] std::int64_t step) const { return true; }
  virtual void evaluated([[maybe_unused]] Run& run) {}
  virtual void epoch([[maybe_unused]] Run& run) {}
  // End of a step: a checkpoint made here resumes exactly from here. Called twice for the last step of an epoch if only
  // the next request for data shows that the epoch is over.
  virtual void settled([[maybe_unused]] Run& run) {}
  virtual void end([[maybe_unused]] Run& run) {}       // also if the run was interrupted; not after an exception
  virtual void finished([[maybe_unused]] Run& run) {}  // after end() of all callbacks; nothing is saved after it

  // State for checkpoints: JSON (null: none) and tensors, which restoring overwrites in place.
  virtual nlohmann::json state() const { return {}; }
  virtual std::vector<NamedTensor> tensors() const { return {}; }
  virtual void restore([[maybe_unused]] const nlohmann::json& state) {}
};

using CallbackPtr = std::shared_ptr<Callback>;

// Callbacks from a single function.
CallbackPtr after_step(std::function<void(Run&)> f, std::int64_t every = 1);
CallbackPtr after_evaluation(std::function<void(Run&)> f);
CallbackPtr after_epoch(std::function<void(Run&)> f);

}  // namespace starling
