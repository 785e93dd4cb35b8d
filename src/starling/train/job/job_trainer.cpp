#include "starling/train/job/job_trainer.h"

#include <utility>

namespace starling::train {
namespace {

LoaderOptions loader_options(const LoadJob& job, std::vector<TransformStep> steps) {
  LoaderOptions made;
  made.shuffle = job.shuffle;
  made.drop_last = job.drop_last;
  made.workers = static_cast<int>(job.workers);
  made.prefetch = static_cast<int>(job.prefetch);
  made.transforms = std::move(steps);
  return made;
}

}  // namespace

TrainerOptions step_options(const PreparedJob& prepared) {
  const Job& job = prepared.job;
  TrainerOptions made;
  made.seed = job.train.seed;
  made.batch = job.data.load.batch;
  made.accumulate = job.train.accumulate;
  made.clip_norm = job.train.clip_norm;
  made.clip_value = job.train.clip_value;
  made.non_finite = job.train.non_finite;
  made.precision = job.train.precision;
  made.threads = static_cast<int>(job.distribute.threads);
  made.stream = job.data.load.stream;
  made.loader = loader_options(job.data.load, prepared.data.train_steps);
  made.test_loader = loader_options(job.data.load, prepared.data.eval_steps);
  made.test_loader.drop_last = false;
  return made;
}

}  // namespace starling::train
