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
#include "starling/train/evaluation.h"
#include "starling/train/objective.h"
#include "starling/train/ranks/step_note.h"
#include "starling/train/run_state.h"

namespace starling {

// What a callback may ask of one step beside its loss. A step of which anything is asked runs as a program of its own
// that returns it; the others pay nothing.
struct StepWants {
  bool gradients = false;    // of every parameter, as the optimizer gets them: averaged, unscaled, not clipped
  bool activations = false;  // the last value that each module made
  bool prediction = false;
};

// What was asked of the last step; empty where nothing was. Valid until the next step.
struct StepValues {
  std::vector<NamedTensor> gradients{};    // by the names of the parameters
  std::vector<NamedTensor> activations{};  // by the paths of the modules, in the order they ran
  Tensor prediction{};
};

// The last step. With gradient accumulation it is the sum of several batches.
struct StepReport {
  double loss = 0;                   // the weighted mean over its samples
  double lr = 0;                     // it was made with
  double gradient_norm = 0;          // before clipping; only when the norm is clipped
  double seconds = 0;                // with the wait for data
  double wait_seconds = 0;           // for data
  std::int64_t samples = 0;          // in it
  bool skipped = false;              // the gradients overflowed in f16: no update was made
  std::span<const Tensor> fields{};  // of its last batch; valid during the callback
  StepValues values{};
};

// What a run intends to do.
struct RunPlan {
  std::int64_t epochs = 0;
  std::int64_t steps = 0;              // of the whole run; 0: not known
  std::int64_t steps_per_epoch = 0;    // 0: not known (a stream)
  std::int64_t samples_per_epoch = 0;  // 0: not known
  std::int64_t batch = 0;
  std::int64_t seed = 0;
  std::filesystem::path folder{};  // of the run; empty: it leaves no files
  std::vector<std::string> class_names{};
  int rank = 0;  // of `ranks` that train together; rank 0 alone writes files and tells the user
  int ranks = 1;
  struct PlannedMetric {
    std::string name;
    bool higher_is_better = true;
  };
  std::vector<PlannedMetric> metrics{};  // of evaluations, in their order
  // Of a metric, or of one that a callback made of it: ema_accuracy is like accuracy.
  bool higher_is_better(const std::string& metric) const;
  // One that callbacks make of a metric of the evaluation, so that it may come later than the others: ema_accuracy.
  bool made_by_callbacks(const std::string& metric) const;
};

class RankLink;

// A run as callbacks see it. Where several ranks train together, each has one, with the same callbacks: what they
// decide must follow from what is the same on all ranks, such as steps, metrics and clock().
class Run {
 public:
  virtual ~Run() = default;

  virtual nn::Module& net() = 0;
  virtual optim::Optimizer& optimizer() = 0;
  virtual const Objective& objective() const = 0;
  virtual const RunPlan& plan() const = 0;
  virtual const RunState& state() const = 0;         // step, epoch, position, metrics of the last evaluation
  virtual const StepReport& last() const = 0;        // the step just made
  virtual const Evaluation& evaluation() const = 0;  // the last one, with what callbacks reported
  virtual CompiledFunction& program() = 0;           // of the normal step: its graph, its profiler

  virtual bool interrupted() const = 0;          // asked to leave before its end: it may go on another time
  virtual void stop(std::string reason) = 0;     // end after this step, as if the run had been this long
  virtual void note(std::string_view text) = 0;  // a line for the user beside the progress line
  virtual Evaluation evaluate() = 0;             // of the test data with the weights as they are now
  virtual void report(const std::string& name, double value) = 0;  // a metric of the last evaluation

  // Everything that resuming needs: parameters, buffers, optimizer, random state, data position, schedule, the state of
  // every callback. The tensors are those of the run, not copies. restore() puts one back, from resume() only.
  // With several ranks both are collective, and rank 0's is the whole one.
  virtual Checkpoint checkpoint() = 0;
  virtual void restore(const Checkpoint& checkpoint) = 0;
  // Whether the ranks have just met, so that a checkpoint is of one model; see RankStrategy::settled.
  virtual bool settled() const { return true; }

  virtual RankLink* link() { return nullptr; }  // to the other ranks; null: there are none
  virtual double clock() const = 0;             // seconds, the same on all ranks; for rhythms
  // Of every rank, as last told by it; empty: there are no others.
  virtual std::span<const RankStats> ranks() const { return {}; }
};

// Something that happens beside the training. All functions are called on the training thread, callbacks in the order
// they were added; what one of them throws ends the run. A step goes: before, the update, step; then, where they are
// due, the evaluation and evaluated, the end of the epoch and epoch; and settled when all of that is done.
class Callback {
 public:
  virtual ~Callback() = default;

  // The key of its state in checkpoints. Two callbacks of one name in a run are refused when either has state.
  virtual std::string name() const = 0;

  // First of all: makes what state() and tensors() tell of.
  virtual void attach([[maybe_unused]] Run& run) {}
  // Before begin: may put the state of an earlier run back (Run::restore) and then returns true; the others are not
  // asked any more.
  virtual bool resume([[maybe_unused]] Run& run) { return false; }
  virtual void begin([[maybe_unused]] Run& run) {}
  virtual StepWants before([[maybe_unused]] Run& run) { return {}; }
  virtual void step([[maybe_unused]] Run& run) {}
  virtual void evaluated([[maybe_unused]] Run& run) {}
  virtual void epoch([[maybe_unused]] Run& run) {}
  // A checkpoint made here goes on exactly from here. Called twice for the last step of an epoch when only asking for
  // more data shows that the epoch is over.
  virtual void settled([[maybe_unused]] Run& run) {}
  virtual void end([[maybe_unused]] Run& run) {}       // also when the run was interrupted, not when it throws
  virtual void finished([[maybe_unused]] Run& run) {}  // after the end of all: nothing is saved any more

  // For checkpoints: what it remembers (null: nothing), and tensors beside that, which are written into on restore.
  virtual nlohmann::json state() const { return {}; }
  virtual std::vector<NamedTensor> tensors() const { return {}; }
  virtual void restore([[maybe_unused]] const nlohmann::json& state) {}
};

using CallbackPtr = std::shared_ptr<Callback>;

// Callbacks made of one function.
CallbackPtr after_step(std::function<void(Run&)> f, std::int64_t every = 1);
CallbackPtr after_evaluation(std::function<void(Run&)> f);
CallbackPtr after_epoch(std::function<void(Run&)> f);

}  // namespace starling
