#include "starling/train/job/job_worker.h"

#include "starling/train/job/job_run.h"
#include "starling/train/job/job_trainer.h"
#include "starling/train/loop/trainer.h"

namespace starling::train {

void train_worker(const Job& job, JobData data, const WorkerSetup& setup) {
  const PreparedJob prepared = prepare_job(job, std::move(data), own_net(job, {.make_net = setup.make_net}));
  const auto optimizer = make_optimizer(prepared.job, *prepared.net);
  TrainerOptions how = step_options(prepared);
  how.threads = setup.threads;
  how.strategy = setup.strategy;
  how.line = setup.line;
  how.buffers = setup.buffers;
  how.workers = setup.workers;
  how.stepped = setup.stepped;
  how.watch_work = setup.watch;
  how.progress.mode = ProgressMode::off;
  const auto own = static_cast<std::size_t>(setup.line->worker());
  if (own < job.distribute.slow.size()) how.slow = job.distribute.slow[own];
  Trainer(*prepared.net, *optimizer, prepared.objective, std::move(how)).fit(prepared.data.splits);
}

}  // namespace starling::train
