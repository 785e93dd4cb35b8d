#include "starling/train/job_run.h"

#include <chrono>
#include <cmath>
#include <memory>
#include <optional>
#include <ostream>

#include "starling/base/error.h"
#include "starling/base/file.h"
#include "starling/data/dataset.h"
#include "starling/dist/strategy/data_parallel.h"
#include "starling/graph/printer.h"
#include "starling/ops/loss.h"
#include "starling/ops/random.h"
#include "starling/runtime/compile.h"
#include "starling/tensor/allocator.h"
#include "starling/train/evaluator.h"
#include "starling/train/run_folder.h"
#include "starling/train/run_state.h"
#include "starling/train/weights_hash.h"
#include "starling/zoo/zoo.h"

namespace starling {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kTraceFrom = 3;  // steps after the start that are not traced: they compile and warm caches
constexpr std::int64_t kTraceSteps = 8;
constexpr double kLossMemory = 0.98;  // of the loss that the progress line shows

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::shared_ptr<Strategy> make_strategy(const DistributeJob& job) {
  if (job.workers == 1 && !job.deterministic) return nullptr;
  return data_parallel({.workers = static_cast<int>(job.workers),
                        .deterministic = job.deterministic,
                        .shards = static_cast<int>(job.shards)});
}

// The network begins with the numbers of the seed, and the steps count from 0 after it.
std::shared_ptr<nn::Module> make_net(const Job& job) {
  manual_seed(job.train.seed);
  auto net = job_recipe(job.model).make();
  manual_seed(job.train.seed);
  return net;
}

class JobRun {
 public:
  JobRun(const Job& job, const TrainOptions& options);
  TrainResult run();

 private:
  void resume();
  bool finished() const;
  void run_epoch();
  void run_step(const Batch& batch);
  void take_loss(double loss, std::int64_t size);
  void after_step();
  void end_epoch(DataPosition ended);
  void save();
  void watch_trace();
  void finish_trace();
  void explain_once();
  bool stopping();
  ProgressState progress_state() const;
  Summary summary() const;

  Job job_;
  TrainOptions options_;
  RunFolder folder_;
  Progress progress_;
  JobData data_;
  std::shared_ptr<nn::Module> net_;
  optim::Sgd optimizer_;
  Evaluator evaluator_;
  CompiledFunction step_;
  std::optional<Loader> loader_;
  std::optional<Profiler> profiler_;
  std::vector<NamedTensor> tensors_;
  RunState state_;
  std::int64_t first_step_ = 0;
  std::int64_t saved_step_ = -1;
  std::int64_t tried_step_ = -1;  // to save; it may have failed
  double shown_loss_ = 0;
  bool explained_ = false;
  bool stopped_ = false;
};

JobRun::JobRun(const Job& job, const TrainOptions& options)
    : job_(job),
      options_(options),
      folder_(job.train),
      progress_(options.progress),
      data_(load_job_data(job)),
      net_(make_net(job)),
      optimizer_(net_->parameters(), {.lr = job.optimizer.lr,
                                     .momentum = job.optimizer.momentum,
                                     .weight_decay = job.optimizer.weight_decay,
                                     .nesterov = job.optimizer.nesterov}),
      evaluator_(*net_, data_.test, static_cast<int>(job.distribute.threads)),
      step_(
          [this](std::span<const Tensor> in) {
            const Tensor loss = cross_entropy((*net_)(in[0]), in[1]);
            loss.backward();
            optimizer_.step();
            return TensorList{loss};
          },
          {.threads = static_cast<int>(job.distribute.threads), .strategy = make_strategy(job.distribute)}),
      tensors_(run_tensors(*net_, optimizer_)) {}

void JobRun::resume() {
  const auto found = folder_.newest([&](const std::string& text) { progress_.note(text); });
  if (found) {
    std::vector<std::string> notes;
    state_ = restore(job_, *found, tensors_, notes);
    progress_.note(fmt::format("resuming {} at step {}", job_.train.folder.string(), state_.step));
    for (const auto& note : notes) progress_.note("the machine differs, so may the bits: " + note);
    saved_step_ = tried_step_ = state_.step;
  }
  first_step_ = state_.step;
  shown_loss_ = state_.mean_loss();
}

bool JobRun::finished() const {
  return state_.position.epoch >= job_.train.epochs || (job_.train.steps > 0 && state_.step >= job_.train.steps);
}

bool JobRun::stopping() {
  stopped_ = stopped_ || (options_.stop && options_.stop());
  return stopped_;
}

TrainResult JobRun::run() {
  allocator(kCpu).reset_peak();
  resume();
  if (auto written = folder_.write_job(job_); !written) progress_.note("warning: " + written.error());
  const auto dataset = std::make_shared<TensorDataset>(std::vector<Tensor>{data_.train.x, data_.train.y});
  loader_.emplace(dataset, LoaderOptions{.batch = job_.data.batch,
                                         .seed = static_cast<std::uint64_t>(job_.train.seed),
                                         .start = state_.position});
  while (!finished() && !stopping()) run_epoch();
  if (stopped_) progress_.finish(progress_state());
  if (!stopped_ && state_.position.sample != 0) end_epoch(state_.position);  // train.steps ended it early
  if (tried_step_ != state_.step) save();
  finish_trace();
  const TrainResult result{.summary = summary(), .stopped = stopped_, .saved = saved_step_ == state_.step};
  if (auto written = write_summary(job_.train.folder, result.summary); !written)
    progress_.note("warning: " + written.error());
  return result;
}

// Until the epoch ends, the run does, or someone asks for a stop.
void JobRun::run_epoch() {
  auto start = Clock::now();
  while (const Batch* batch = loader_->next()) {
    if (batch->begin.sample == 0) state_.begin_epoch();
    run_step(*batch);
    state_.position = loader_->position();
    state_.seconds += seconds_since(start);
    after_step();
    if (finished() || stopping()) return;
    start = Clock::now();
  }
  const DataPosition ended = state_.position;
  state_.position = loader_->position();
  end_epoch(ended);
}

void JobRun::run_step(const Batch& batch) {
  watch_trace();
  const TensorList out = step_.call({batch.fields.data(), batch.fields.size()});
  explain_once();
  take_loss(out[0].item(), batch.size);
  ++state_.step;
}

void JobRun::take_loss(double loss, std::int64_t size) {
  check(std::isfinite(loss), "[train] expected a finite loss, got {} at step {} (epoch {}); {}", loss, state_.step + 1,
        state_.position.epoch + 1,
        saved_step_ < 0 ? "nothing was saved yet" : fmt::format("the newest checkpoint is of step {}", saved_step_));
  state_.samples += size;
  state_.epoch_samples += size;
  state_.epoch_loss += loss * static_cast<double>(size);
  shown_loss_ = state_.step == first_step_ ? loss : kLossMemory * shown_loss_ + (1 - kLossMemory) * loss;
}

void JobRun::after_step() {
  progress_.update(progress_state());
  const std::int64_t every = job_.train.checkpoint_every;
  if (every > 0 && state_.step % every == 0) save();
}

void JobRun::end_epoch(DataPosition ended) {
  const double accuracy = evaluator_.accuracy();
  state_.metrics["test_accuracy"] = accuracy;
  const ProgressMetric shown{"test_accuracy", accuracy};
  ProgressState state = progress_state();
  state.epoch = ended.epoch;
  state.sample = ended.sample;
  state.metrics = {&shown, 1};
  progress_.finish(state);
  save();
}

void JobRun::save() {
  tried_step_ = state_.step;
  const auto saved = folder_.save(make_checkpoint(job_, state_, tensors_));
  if (saved) {
    saved_step_ = state_.step;
  } else {
    progress_.note(fmt::format("warning: no checkpoint of step {}, training goes on: {}", state_.step, saved.error()));
  }
}

void JobRun::watch_trace() {
  if (options_.trace.empty()) return;
  const std::int64_t since = state_.step - first_step_;
  if (since == kTraceFrom) step_.set_profiler(&profiler_.emplace());
  if (since == kTraceFrom + kTraceSteps) finish_trace();
}

void JobRun::finish_trace() {
  if (!profiler_) return;
  step_.set_profiler(nullptr);
  if (auto written = write_file_atomically(options_.trace, profiler_->chrome_trace()); !written)
    progress_.note("warning: " + written.error());
  profiler_.reset();
}

void JobRun::explain_once() {
  if (!options_.explain || explained_) return;
  explained_ = true;
  *options_.explain << step_.graph() << step_.explain() << std::flush;
}

ProgressState JobRun::progress_state() const {
  return {.epoch = state_.position.epoch,
          .epochs = job_.train.epochs,
          .sample = state_.position.sample,
          .samples = data_.train.y.size(0),
          .loss = shown_loss_};
}

Summary JobRun::summary() const {
  std::vector<NamedTensor> weights;
  for (auto& [name, tensor] : net_->named_parameters()) weights.push_back({name, tensor});
  return {.steps = state_.step,
          .samples_per_s = state_.samples_per_s(),
          .loss = state_.mean_loss(),
          .metrics = state_.metrics,
          .peak_bytes = allocator(kCpu).stats().peak_bytes,
          .weights_hash = weights_hash(weights)};
}

}  // namespace

TrainResult train(const Job& job, const TrainOptions& options) { return JobRun(job, options).run(); }

}  // namespace starling
