#pragma once

#include <functional>
#include <memory>

#include "starling/data/loading/loader.h"
#include "starling/dist/strategy/servers/served_strategy.h"
#include "starling/train/loop/step_programs.h"
#include "starling/train/workers/leader_line.h"
#include "starling/train/workers/shared_buffers.h"
#include "starling/train/workers/watch_work.h"

namespace starling::train {

// Network, optimizer, strategy and line to the leader of one worker.
struct WorkerParts {
  nn::Module& net;
  optim::Optimizer& optimizer;
  StepPrograms& programs;
  dist::ServedStrategy& strategy;
  LeaderLine& line;
  SharedBuffers* buffers = nullptr;  // of worker 0, where the leader reads them; else null
  std::int64_t seed = 1;
  std::function<void(std::int64_t step)> stepped{};  // may be null
  WatchWork watch{};                                 // may be null
};

// Trains on the portions that the leader hands out until it ends the run. `make`: the worker's loader from this
// position on, whose portions are the line's. An error is told to the leader before it is thrown.
void work_for_leader(const WorkerParts& parts,
                     const std::function<std::unique_ptr<Loader>(data::DataPosition start)>& make);

}  // namespace starling::train
