#include "starling/train/job/job_run.h"

#include <fmt/format.h>
#include <unistd.h>

#include <system_error>

#include "starling/base/error_text.h"
#include "starling/base/file/file.h"
#include "starling/base/file/folder.h"
#include "starling/data/datasets/transformed_dataset.h"
#include "starling/dist/comm/rank_progress.h"
#include "starling/nn/normalize.h"
#include "starling/ops/api/random.h"
#include "starling/optim/deferred_state.h"
#include "starling/tensor/out_of_memory.h"
#include "starling/train/callbacks/checkpoints.h"
#include "starling/train/callbacks/ready_made.h"
#include "starling/train/checkpoint/finite.h"
#include "starling/train/job/job_codec.h"
#include "starling/train/job/job_error.h"
#include "starling/train/job/job_layout.h"
#include "starling/train/job/job_procedure.h"
#include "starling/train/job/job_ranks.h"
#include "starling/train/job/job_trainer.h"
#include "starling/train/job/prepared_job.h"
#include "starling/train/loop/interrupt.h"
#include "starling/train/loop/trainer.h"
#include "starling/train/monitor/failure_log.h"
#include "starling/train/monitor/monitor.h"
#include "starling/train/ranks/link.h"
#include "starling/train/ranks/processes.h"
#include "starling/train/run/run_folder.h"
#include "starling/train/runs/run_record.h"
#include "starling/train/saved_model/saved_model.h"

namespace starling::train {
namespace {

namespace fs = std::filesystem;

TrainerOptions trainer_options(const PreparedJob& prepared, const TrainOptions& options, const RankSetup& setup) {
  const Job& job = prepared.job;
  TrainerOptions made = step_options(prepared);
  made.epochs = job.train.epochs;
  made.steps = job.train.steps;
  made.folder = job.train.folder;
  made.finite_every = job.train.finite_every;
  made.rollbacks = static_cast<int>(job.train.rollbacks);
  if (job.schedule.kind) made.schedule = job.schedule.kind->make();
  made.watch = told_name(prepared, job.train.watch, "train.watch");
  made.evaluate_every = job.train.evaluate_every;
  made.evaluate_batch = job.data.load.eval_batch;
  made.metrics = prepared.metrics;
  made.threads = setup.threads;
  made.strategy = setup.strategy ? setup.strategy : setup.step;
  made.pool = setup.pool;
  made.hash_every = job.distribute.hash_every;
  const auto& slow = job.distribute.slow;
  const auto own = static_cast<std::size_t>(setup.rank());
  if (own < slow.size()) made.slow = slow[own];
  made.failed = setup.failed;
  made.progress = options.progress;
  made.stop = options.stop;
  made.explain = options.explain;
  made.whole_at_end =
      options.net || options.make_net || !options.callbacks.empty();  // the program's own code may read them
  for (const auto& [path, value] : job_identity(job)) made.identity[path] = value;
  return made;
}

Result<void> write_job(const Job& job) {
  if (auto made = make_folders(job.train.folder); !made) return made;
  Job again = job;  // training the folder again resumes, however this run began
  again.train.resume = Resume::automatic;
  return write_file_atomically(job.train.folder / "job.yaml", to_yaml(again));
}

// Refuses to start without a run folder. Disk errors during the run do not end it.
void expect_folder(const Job& job) {
  const fs::path& folder = job.train.folder;
  std::error_code error;
  const auto made = make_folders(folder);
  std::string obstacle = made ? "" : made.error();
  if (obstacle.empty() && !fs::is_directory(folder, error)) obstacle = "something else of that name";
  if (obstacle.empty() && ::access(folder.c_str(), W_OK | X_OK) != 0) obstacle = errno_text();
  if (!obstacle.empty()) refuse_job(job, "train.folder", folder_refusal(folder, obstacle));
}

// True if a run has been trained for longer than a job asks.
bool is_beyond(const TrainJob& job, const RunPosition& run) {
  const bool longer = run.epoch > job.epochs || (run.epoch == job.epochs && run.sample > 0);
  return longer || (job.steps > 0 && run.step > job.steps);
}

// Writes job.yaml once the run has begun, that is, after its checkpoints were found to match.
class JobFile final : public Callback {
 public:
  JobFile(const Job& job, std::vector<std::string> notes) : job_(job), notes_(std::move(notes)) {}
  std::string name() const override { return "job_file"; }
  bool looks_at_loss(std::int64_t) const override { return false; }
  void begin(Run& run) override {
    if (run.plan().rank != 0) return;
    for (const auto& note : notes_) run.note(note);
    const RunState& state = run.state();
    // A run that went further belongs to the job that it was trained by.
    if (is_beyond(job_.train, {state.position.epoch, state.position.sample, state.step})) return;
    if (auto written = write_job(job_); !written) run.note("warning: " + written.error());
  }

 private:
  const Job& job_;
  std::vector<std::string> notes_;  // of the data and the strategy
};

// Data set whose reader reports progress: other ranks wait meanwhile.
class Reporting final : public Dataset {
 public:
  Reporting(std::shared_ptr<const Dataset> data, const RankLink* link) : data_(std::move(data)), link_(link) {}
  std::int64_t size() const override { return data_->size(); }
  std::vector<TensorType> fields() const override { return data_->fields(); }
  void gather(std::span<const std::int64_t> rows, std::span<const Tensor> out) const override {
    data_->gather(rows, out);
    if (link_ != nullptr) link_->progress();
  }

 private:
  std::shared_ptr<const Dataset> data_;
  const RankLink* link_;
};

// Pre-trains the hidden layers before the first step; skipped in a resumed run.
class Pretrain final : public Callback {
 public:
  Pretrain(const PreparedJob& prepared, std::function<bool()> stop) : prepared_(prepared), stop_(std::move(stop)) {}
  std::string name() const override { return "pretrain"; }
  bool looks_at_loss(std::int64_t) const override { return false; }
  void begin(Run& run) override {
    if (done_ || run.state().step > 0 || run.plan().rank != 0) return;  // other ranks receive rank 0's weights
    check(
        prepared_.data.unlabelled != nullptr,
        "[pretrain] expected data that can be asked by number, got shards without an index (write data.indexed: true, "
        "or leave pretrain out)");
    const auto data = std::make_shared<TransformedDataset>(prepared_.data.unlabelled, prepared_.data.eval_steps);
    const auto reports = std::make_shared<Reporting>(data, run.link());
    prepared_.job.pretrain.kind->make()(
        run.net(), reports, [&](const std::string& layer, std::int64_t epoch, double loss) {
          if (stop_ && stop_())
            throw Interrupted("[train] interrupted while pre-training: there is nothing to save yet");
          run.note(fmt::format("pre-training {}, epoch {}: loss {:.4f}", layer, epoch + 1, loss));
        });
    manual_seed(run.plan().seed);  // independent of the numbers drawn by pre-training
    done_ = true;
  }
  // Saved, so that a run stopped before its first step is not pre-trained again.
  nlohmann::json state() const override { return {{"done", done_}}; }
  void restore(const nlohmann::json& state) override { done_ = state.at("done").get<bool>(); }

 private:
  const PreparedJob& prepared_;
  std::function<bool()> stop_;  // polled after every epoch of a layer
  bool done_ = false;
};

// Asks for a stop once so many epochs are done, also by a run that is resumed.
class PauseAfter final : public Callback {
 public:
  PauseAfter(std::int64_t epochs, std::shared_ptr<bool> paused) : epochs_(epochs), paused_(std::move(paused)) {}
  std::string name() const override { return "pause_after"; }
  bool looks_at_loss(std::int64_t) const override { return false; }
  void begin(Run& run) override { epoch(run); }
  void epoch(Run& run) override { *paused_ = run.state().position.epoch >= epochs_; }

 private:
  std::int64_t epochs_;
  std::shared_ptr<bool> paused_;
};

// Settings that determine the weights, as HParams values: numbers, booleans and strings.
MonitorContext monitor_context(const Job& job) {
  MonitorContext context;
  for (const auto& [path, value] : job_identity(job)) {
    auto json = nlohmann::json::parse(value);
    if (json.is_null()) continue;
    context.parameters.emplace_back(path, json.is_structured() ? nlohmann::json(value) : std::move(json));
  }
  context.job = to_yaml(job);
  return context;
}

// `served`: this is the leader of workers beside parameter servers.
void add_callbacks(Trainer& trainer, const PreparedJob& prepared, const TrainOptions& options,
                   std::vector<std::string> notes, bool served) {
  const TrainJob& job = prepared.job.train;
  for (const auto& note : prepared.data.splits.notes) notes.push_back(note);
  for (auto& note : procedure_notes(prepared)) notes.push_back(std::move(note));
  for (auto& note : codec_notes(prepared)) notes.push_back(std::move(note));
  trainer.add(std::make_shared<JobFile>(prepared.job, std::move(notes)));
  if (prepared.job.pretrain.kind) trainer.add(std::make_shared<Pretrain>(prepared, options.stop));
  if (job.average) {
    trainer.add(average_weights({.decay = job.average->decay,
                                 .from_step = job.average->from_step,
                                 .every = job.average->every,
                                 .keep = job.average->keep}));
  }
  if (job.early_stop) {
    trainer.add(early_stop({.metric = told_name(prepared, job.early_stop->metric, "train.early_stop.metric"),
                            .patience = job.early_stop->patience,
                            .min_delta = job.early_stop->min_delta,
                            .lowest = {}}));
  }
  for (const auto& callback : options.callbacks) trainer.add(callback);
  if (!options.trace.empty() && !served) trainer.add(trace_steps({.file = options.trace}));  // else workers have steps
  trainer.add(monitor(prepared.job.monitor, monitor_context(prepared.job)));
}

nlohmann::json about(const Summary& summary) {
  return {{"step", summary.steps}, {"metrics", summary.metrics}, {"weights_hash", summary.weights_hash}};
}

// Adapts the network to the strategy, and rejects combinations that the strategy does not support.
void fit_strategy(const PreparedJob& prepared, const dist::RankStrategy& strategy) {
  if (prepared.job.distribute.batch_norm == DistributeJob::BatchNorm::global) {
    if (!strategy.global_program())
      refuse_job(prepared.job, "distribute.batch_norm",
                 fmt::format("[train] expected distribute.batch_norm: local with {}, under which workers know nothing "
                             "of other rows, got global (leave distribute.batch_norm out)",
                             strategy.name()));
    nn::use_global_statistics(*prepared.net);
  }
  if (prepared.job.train.average && (strategy.settles_to_evaluate() || strategy.shows_to_evaluate()))
    refuse_job(prepared.job, "train.average",
               fmt::format("[train] expected no train.average with {}, under which workers hold different weights, got "
                           "one (leave it out, or take distribute.strategy: allreduce)",
                           strategy.name()));
}

// State that ranks will store in pieces is not made whole before.
std::unique_ptr<optim::Optimizer> make_optimizer(const PreparedJob& prepared,
                                                 const std::shared_ptr<dist::RankStrategy>& strategy) {
  const optim::DeferredState deferred(
      [&](const Tensor& parameter) { return strategy && strategy->cuts_state(parameter); });
  return make_optimizer(prepared.job, *prepared.net);
}

// Tells what of the memory state is where a body runs out of it.
[[noreturn]] void explain_memory(const OutOfMemory& error, const PreparedJob& prepared, const TrainOptions& options) {
  const std::int64_t here = among_processes(options.processes) ? 1 : prepared.job.distribute.workers;
  throw OutOfMemory(fmt::format("{}; {}", without_rank(error.what()), told_state(prepared, here)));
}

template <class Body>
auto explaining_memory(const PreparedJob& prepared, const TrainOptions& options, const Body& body) {
  try {
    return body();
  } catch (const OutOfMemory& error) {
    explain_memory(error, prepared, options);
  }
}

// A job with its network. Weights that ranks store pieces of are never whole: their names, and so their layouts, are
// known once all layers are there.
PreparedJob prepare_pieces(const Job& job, const JobData& data, const TrainOptions& options, const RankSetup& setup) {
  std::optional<nn::DeferredWeights> deferred;
  const std::shared_ptr<nn::Module> own = own_net(job, options);
  if (setup.strategy && !own && defers_weights(job)) deferred.emplace();
  PreparedJob prepared = prepare_job(job, data, own, setup.local_rank);
  if (setup.strategy) {
    fit_strategy(prepared, *setup.strategy);
    expect_layout(prepared);
  }
  if (deferred) make_weights(prepared, *deferred, *setup.strategy);
  return prepared;
}

PreparedJob prepare_for(const Job& job, const JobData& data, const TrainOptions& options, const RankSetup& setup) {
  try {
    return prepare_pieces(job, data, options, setup);
  } catch (const OutOfMemory& error) {
    const nn::DeferredWeights sizes_alone;
    explain_memory(error, prepare_job(job, data, own_net(job, options), setup.local_rank), options);
  }
}

// A step that cannot be built is the job's fault if its shapes alone show it: then that is told, with the layer.
FitResult fit_or_explain(Trainer& trainer, const PreparedJob& prepared) {
  try {
    return trainer.fit(prepared.data.splits);
  } catch (const Refusal&) {
    throw;
  } catch (const OutOfMemory&) {
    throw;
  } catch (const Interrupted&) {
    throw;
  } catch (const Error&) {
    static_cast<void>(trace_shapes(prepared));
    throw;
  }
}

}  // namespace

namespace {

// Name of a weight or buffer with an infinity or NaN; empty: there is none. Weights in pieces are fetched.
std::string first_not_finite(const PreparedJob& prepared, const Checkpoint& weights) {
  const auto finite = [&](const NamedTensor& one) {
    if (one.tensor.device().kind != DeviceKind::null || !weights.fetch) return all_finite(one.tensor);
    bool found = true;
    weights.fetch(one, [&](std::span<const std::byte> bytes) {
      found = found && all_finite(bytes, one.tensor.dtype());
      return true;
    });
    return found;
  };
  for (const NamedTensor& one : weights.tensors) {
    if (!finite(one)) return one.name;
  }
  for (const auto& [name, buffer] : prepared.net->named_buffers()) {
    if (!finite({name, buffer})) return name;
  }
  return "";
}

// A network that cannot be exported must not make the training fail.
void export_to(const fs::path& folder, const PreparedJob& prepared, const Checkpoint& weights, TrainResult& result) {
  if (const std::string bad = first_not_finite(prepared, weights); !bad.empty()) {
    result.model_error = fmt::format(
        "[export] expected finite weights, got an infinity or NaN in '{}' (`starling export {}` makes a model of the "
        "newest checkpoint)",
        bad, prepared.job.train.folder.string());
    return;
  }
  prepared.net->to(kCpu);  // saved models are traced where they are most likely to run
  const auto exported = attempt([&] { export_model(prepared, folder, about(result.summary), weights.fetch).value(); });
  if (exported)
    result.model = folder;
  else
    result.model_error = exported.error();
}

}  // namespace

std::shared_ptr<nn::Module> own_net(const Job& job, const TrainOptions& options) {
  if (!options.make_net) return options.net;
  manual_seed(job.train.seed);
  auto made = options.make_net();
  check(made != nullptr, "[train] expected a function that makes a network, got one that returned none");
  return made;
}

std::optional<TrainResult> trained_beyond(const Job& job) {
  if (job.train.resume != Resume::automatic) return std::nullopt;
  const auto run = newest_position(job.train.folder);
  if (!run || !is_beyond(job.train, *run)) return std::nullopt;
  TrainResult result{.was_finished = true, .beyond = true, .epochs = run->epoch};
  result.summary.steps = run->step;
  return result;
}

namespace {

TrainResult train_prepared(const PreparedJob& prepared, const TrainOptions& options, const RankSetup& setup) {
  const Job& job = prepared.job;
  const bool leads = setup.rank() == 0;
  std::vector<std::string> notes = leads ? layout_notes(prepared) : std::vector<std::string>();
  if (const std::string mesh = leads ? mesh_note(prepared) : ""; !mesh.empty()) notes.insert(notes.begin(), mesh);
  if (leads && !setup.device_note.empty()) notes.push_back(setup.device_note);
  if (setup.step && job.distribute.batch_norm == DistributeJob::BatchNorm::global)
    nn::use_global_statistics(*prepared.net);
  expect_batches(prepared);
  // A metric that cannot judge is told before an epoch has been trained for nothing.
  if (!job.train.metrics.empty()) expect_metrics(prepared, trace_shapes(prepared));
  const auto optimizer = explaining_memory(prepared, options, [&] { return make_optimizer(prepared, setup.strategy); });
  const auto saver = checkpoints({.every_steps = job.train.checkpoint_every,
                                  .every_seconds = job.train.checkpoint_seconds,
                                  .keep = static_cast<int>(job.train.keep),
                                  .best = told_name(prepared, job.train.best, "train.best"),
                                  .resume = job.train.resume,
                                  .save_memory = static_cast<std::uint64_t>(job.train.save_memory) << 20});
  const auto paused = std::make_shared<bool>(false);
  TrainerOptions how = trainer_options(prepared, options, setup);
  const bool pauses = options.pause_after > 0 && options.pause_after < job.train.epochs;
  if (pauses) how.stop = [paused, stop = options.stop] { return *paused || (stop && stop()); };
  Trainer trainer(*prepared.net, *optimizer, prepared.objective, std::move(how));
  add_callbacks(trainer, prepared, options, std::move(notes), setup.pool != nullptr);
  if (pauses) trainer.add(std::make_shared<PauseAfter>(options.pause_after, paused));
  if (setup.stepped) trainer.add(after_step([&](Run& run) { setup.stepped(run.state().step); }));
  trainer.add(saver);
  FitResult fitted = explaining_memory(prepared, options, [&] { return fit_or_explain(trainer, prepared); });
  TrainResult result{.summary = std::move(fitted.summary), .stopped = fitted.interrupted, .leads = leads};
  result.ended_by = std::move(fitted.ended_by);
  result.was_finished = fitted.was_finished;
  result.summary_written = fitted.summary_written;
  result.epochs = fitted.position.epoch;
  result.beyond = result.was_finished &&
                  is_beyond(job.train, {fitted.position.epoch, fitted.position.sample, result.summary.steps});
  result.saved = saver->saved_step() == result.summary.steps;
  const fs::path folder = job.train.folder / "model";
  if (result.was_finished && is_saved_model(folder)) result.model = folder;
  if (result.beyond || result.stopped || !job.train.export_model) return result;
  // The other ranks may wait for the first one's end, and an export cannot tell how far it is.
  const dist::RankProgress::Uncounted exporting(setup.strategy ? setup.strategy->comm().rank_progress() : nullptr);
  const dist::RankProgress::Doing doing(setup.strategy ? setup.strategy->comm().rank_progress() : nullptr, "export");
  trainer.with_weights([&](const Checkpoint& weights) {
    if (leads && result.model.empty()) export_to(folder, prepared, weights, result);
  });
  return result;
}

}  // namespace

// Keeps in the log why a run failed. Refusals and interrupts are no failures of the run.
TrainResult train_rank(const Job& job, const JobData& data, const TrainOptions& options, const RankSetup& setup) {
  const PreparedJob prepared = prepare_for(job, data, options, setup);
  if (setup.rank() != 0) return train_prepared(prepared, options, setup);
  expect_folder(job);
  try {
    return train_prepared(prepared, options, setup);
  } catch (const Refusal&) {
    throw;
  } catch (const ConfigError&) {
    throw;
  } catch (const Interrupted&) {
    throw;
  } catch (const std::exception& error) {
    if (job.monitor.jsonl) static_cast<void>(log_failure(job.train.folder, error.what()));
    throw;
  }
}

}  // namespace starling::train
