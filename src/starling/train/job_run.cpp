#include "starling/train/job_run.h"

#include <system_error>

#include "starling/base/file.h"
#include "starling/data/dataset.h"
#include "starling/dist/strategy/data_parallel.h"
#include "starling/ops/random.h"
#include "starling/optim/sgd.h"
#include "starling/train/callbacks/checkpoints.h"
#include "starling/train/callbacks/ready_made.h"
#include "starling/train/job_data.h"
#include "starling/train/objectives.h"
#include "starling/train/trainer.h"

namespace starling {
namespace {

namespace fs = std::filesystem;

std::shared_ptr<Strategy> make_strategy(const DistributeJob& job) {
  if (job.workers == 1 && !job.deterministic) return nullptr;
  return data_parallel({.workers = static_cast<int>(job.workers),
                        .deterministic = job.deterministic,
                        .shards = static_cast<int>(job.shards)});
}

// The network begins with the numbers of the seed.
std::shared_ptr<nn::Module> make_net(const Job& job) {
  manual_seed(job.train.seed);
  return job_recipe(job.model).make();
}

std::shared_ptr<const Dataset> dataset_of(const LabelledSet& set) {
  return std::make_shared<TensorDataset>(std::vector<Tensor>{set.x, set.y});
}

TrainerOptions trainer_options(const Job& job, const TrainOptions& options) {
  TrainerOptions made{.epochs = job.train.epochs,
                      .steps = job.train.steps,
                      .seed = job.train.seed,
                      .batch = job.data.batch,
                      .folder = job.train.folder,
                      .metrics = {{"test_accuracy", metric_kinds().by_name("accuracy").make()}},
                      .threads = static_cast<int>(job.distribute.threads),
                      .strategy = make_strategy(job.distribute),
                      .progress = options.progress,
                      .stop = options.stop,
                      .explain = options.explain};
  for (const auto& [path, value] : job_identity(job)) made.identity[path] = value;
  return made;
}

Result<void> write_job(const Job& job) {
  std::error_code error;
  fs::create_directories(job.train.folder, error);
  if (error) return failure("[train] expected to create {}, got: {}", job.train.folder.string(), error.message());
  return write_file_atomically(job.train.folder / "job.yaml", to_yaml(job));
}

// The job as it is run, once it is known that its checkpoints are its own.
class JobFile final : public Callback {
 public:
  explicit JobFile(const Job& job) : job_(job) {}
  std::string name() const override { return "job_file"; }
  void begin(Run& run) override {
    if (auto written = write_job(job_); !written) run.note("warning: " + written.error());
  }

 private:
  const Job& job_;
};

}  // namespace

TrainResult train(const Job& job, const TrainOptions& options) {
  const JobData data = load_job_data(job);
  const auto net = make_net(job);
  optim::Sgd optimizer(net->parameters(), {.lr = job.optimizer.lr,
                                           .momentum = job.optimizer.momentum,
                                           .weight_decay = job.optimizer.weight_decay,
                                           .nesterov = job.optimizer.nesterov});
  const auto saver = checkpoints({.every_steps = job.train.checkpoint_every,
                                  .keep = static_cast<int>(job.train.keep),
                                  .resume = job.train.resume});
  Trainer trainer(*net, optimizer, classify(), trainer_options(job, options));
  trainer.add(std::make_shared<JobFile>(job));
  if (!options.trace.empty()) trainer.add(trace_steps({.file = options.trace}));
  trainer.add(saver);
  FitResult result = trainer.fit(dataset_of(data.train), dataset_of(data.test));
  const bool saved = saver->saved_step() == result.summary.steps;
  return {.summary = std::move(result.summary), .stopped = result.interrupted, .saved = saved};
}

}  // namespace starling
