#pragma once

#include <functional>
#include <memory>

#include "starling/dist/strategy/rank_strategy.h"
#include "starling/train/job/job_data.h"
#include "starling/train/job/prepared_job.h"
#include "starling/train/workers/leader_line.h"
#include "starling/train/workers/shared_buffers.h"
#include "starling/train/workers/watch_work.h"

namespace starling::train {

// Surroundings of one worker of a job with a leader.
struct WorkerSetup {
  int workers = 1;
  std::shared_ptr<dist::RankStrategy> strategy{};
  std::shared_ptr<LeaderLine> line{};
  std::shared_ptr<SharedBuffers> buffers{};  // of worker 0; else null
  int threads = 0;
  std::function<void(std::int64_t step)> stepped{};         // may be null
  WatchWork watch{};                                        // may be null
  std::function<std::shared_ptr<nn::Module>()> make_net{};  // of the program's own; null: the job's model
};

// Trains on what the leader hands out, until it ends the run.
void train_worker(const Job& job, JobData data, const WorkerSetup& setup);

}  // namespace starling::train
