#pragma once

#include <functional>
#include <memory>
#include <string_view>

#include "starling/dist/strategy/rank_strategy.h"
#include "starling/train/job_data.h"
#include "starling/train/job_run.h"

namespace starling {

// Where a trainer of a job stands among others.
struct RankPlace {
  std::shared_ptr<RankStrategy> strategy{};            // null: it is alone
  int threads = 0;                                     // for it
  std::function<void(std::int64_t step)> stepped{};    // told after every step; null: nobody asks
  std::function<void(std::string_view why)> failed{};  // told before the others can fail because of this one
  int rank() const { return strategy ? strategy->rank() : 0; }
};

// One rank of a job, from the data to the end of the training.
TrainResult train_rank(const Job& job, JobData data, const TrainOptions& options, const RankPlace& place);

}  // namespace starling
