#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "starling/dist/strategy/rank_strategy.h"
#include "starling/train/job/job_data.h"
#include "starling/train/job/job_run.h"
#include "starling/train/workers/worker_pool.h"

namespace starling::train {

// Surroundings of one rank's trainer in a job.
struct RankSetup {
  std::shared_ptr<dist::RankStrategy> strategy{};      // null: a single rank
  std::shared_ptr<runtime::Strategy> step{};           // of one rank whose steps run on several threads; else null
  int threads = 0;                                     // threads of this rank
  std::function<void(std::int64_t step)> stepped{};    // called after every step; may be null
  std::function<void(std::string_view why)> failed{};  // called before its failure reaches other ranks
  std::shared_ptr<WorkerPool> pool{};                  // of a leader whose workers train by themselves; else null
  int local_rank = 0;                                  // among the ranks of this host, which choose GPUs by it
  std::string device_note{};                           // where ranks train on GPUs, for the beginning of the run
  int rank() const { return strategy ? strategy->rank() : 0; }
};

// Result of a run whose newest checkpoint has gone further than the job asks; nothing in its folder changes. nullopt:
// there is something to train.
std::optional<TrainResult> trained_beyond(const Job& job);

// Runs one rank of a job, from the loaded data to the end of training.
TrainResult train_rank(const Job& job, const JobData& data, const TrainOptions& options, const RankSetup& setup);

}  // namespace starling::train
