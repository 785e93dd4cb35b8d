#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>

#include "starling/train/job.h"
#include "starling/train/progress.h"
#include "starling/train/ranks/processes.h"
#include "starling/train/summary.h"

namespace starling {

struct TrainOptions {
  ProgressOptions progress{};
  // Asked after every step, by one worker also within evaluations; true: save and return. Null: never. While
  // pre-training, which leaves nothing to save, true throws Interrupted.
  std::function<bool()> stop{};
  std::filesystem::path trace{};    // write a Chrome trace of some steps there; empty: none
  std::ostream* explain = nullptr;  // gets the compiled step's graph and explain() once it is built
  ProcessFlags processes{};         // where this process stands among those of the run
};

struct TrainResult {
  Summary summary;
  bool stopped = false;           // asked to, before the end
  bool saved = true;              // the last state is in a checkpoint
  std::string ended_by{};         // why it ended before its time; empty: it did not
  std::filesystem::path model{};  // the saved model; empty: none was asked for, or it failed
  std::string model_error{};      // why there is none
  bool leads = true;              // this process writes the files and tells of the run
};

// Runs a job to its end: compiled steps over the global batch, by as many workers as the job says: threads of this
// process, or, where it was started as one of several, those processes, all of which call this. Evaluation at the end
// of each epoch; checkpoints there, every train.checkpoint_every steps and at the end. The run folder gets job.yaml,
// checkpoints/, summary.json and model/. A run that was stopped or killed goes on where its newest checkpoint stands,
// to the same bits. Seeds the default random generator of this thread. A save that fails is told and training goes on;
// a loss that is not finite throws, naming the step.
TrainResult train(const Job& job, const TrainOptions& options = {});

}  // namespace starling
